"""The nodes of operators that carry something from batch to batch."""
