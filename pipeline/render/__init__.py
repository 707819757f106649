"""Requests to prompt text (or ids): conversations, templates, masks, and the time a template may take."""
