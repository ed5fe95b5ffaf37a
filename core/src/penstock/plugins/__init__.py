"""Plugins: what they offer, and how they are found and isolated."""
