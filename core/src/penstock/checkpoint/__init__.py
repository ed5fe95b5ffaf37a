"""What survives the driver: checkpoints, and how a context recovers from them."""
