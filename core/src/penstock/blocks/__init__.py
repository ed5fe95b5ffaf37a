"""Blocks: their Arrow form, their files, and how they are stored and fetched."""
