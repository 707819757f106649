"""What the data looks like: requests, token rows, columns, options, the model bundle. No I/O."""
