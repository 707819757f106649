"""A finished run held against a live server."""
