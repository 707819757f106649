"""Where and when the steps run: queue, actors, fleet, one-process mode, command line."""
