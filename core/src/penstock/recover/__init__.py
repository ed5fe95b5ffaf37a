"""What outlives a driver: the journal of what happened, and the folders it is kept in."""
