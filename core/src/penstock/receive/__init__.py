"""The executor side: a receiver and what carries it. Knows neither batches nor the tracker's insides."""
