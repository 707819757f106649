"""Where inputs and outputs lie: folders of this machine and object stores."""
