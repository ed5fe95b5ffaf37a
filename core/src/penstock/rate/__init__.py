"""Rate estimators: plugins' estimators with their errors contained."""
