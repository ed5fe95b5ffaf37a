"""The driver side of receivers: their placement, their stored blocks, and the allocation of blocks to batches."""
