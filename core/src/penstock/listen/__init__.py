"""Events, listeners and the bus between them. Independent of the components that post events."""
