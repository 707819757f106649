"""Placeholders to media spans: sizes from headers, counts by family."""
