"""Rate estimators: guarded calls, and simulated plants to try them on."""
