"""Durable bytes: where they lie, how they are written so that no crash halves them, how they are trusted."""
