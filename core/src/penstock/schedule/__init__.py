"""When: batches are generated, submitted, run and cleaned up."""
