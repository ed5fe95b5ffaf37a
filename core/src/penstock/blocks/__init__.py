"""Blocks: their Arrow form, their files, where they are stored and how they are fetched."""
