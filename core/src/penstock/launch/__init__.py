"""Java and spark-submit: what must be there before Spark runs."""
