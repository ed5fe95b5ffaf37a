"""Recovery: find the newest checkpoint, check it against the program, restore streams, state and schedule."""
