"""A block: its Arrow form, where it lives, how it is fetched. Knows neither receivers nor batches."""
