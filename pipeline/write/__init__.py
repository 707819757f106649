"""Token rows to part files, rejects to JSONL, both published whole or not at all."""
