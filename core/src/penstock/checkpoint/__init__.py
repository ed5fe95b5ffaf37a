"""Checkpoints: what a run writes so that a later run can recover from it; ``restore`` reads it."""
