"""Events, listeners and the bus between them. Knows nothing of what causes an event."""
