"""Outputs on the one SparkContext of the test run."""
