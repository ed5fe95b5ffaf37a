"""The nodes of operators without state."""
