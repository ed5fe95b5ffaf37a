"""Rate control: estimators, and the listener that sends their answer to the receivers."""
