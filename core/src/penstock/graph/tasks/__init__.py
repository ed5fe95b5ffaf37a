"""What operators on several batches do inside a task. Knows no stream and no RDD."""
