"""The steps of a row's way. Start at `encoder.py`. Works in one process; knows nothing of Ray."""
