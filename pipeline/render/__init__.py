"""Requests to prompt text or ids: conversations, templates, masks, the render timeout."""
