"""The code that runs inside Python workers: fused functions, block readers, window and state tasks."""
