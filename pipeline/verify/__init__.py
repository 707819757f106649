"""Stored prompts held against a server's answers: what to ask, how to compare, what differs."""
