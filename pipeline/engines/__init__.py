"""Text to ids and character offsets, many rows at a time."""
