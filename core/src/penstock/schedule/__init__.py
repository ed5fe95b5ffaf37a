"""The schedule of batches: when they are generated, submitted, run and cleaned up."""
