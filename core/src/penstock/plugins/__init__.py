"""Plugins: what they offer, how they are discovered and isolated, and what their listeners may use."""
