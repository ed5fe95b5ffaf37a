"""Rate estimators: guarded calls, attribution of processing time, and simulated workloads."""
