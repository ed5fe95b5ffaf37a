"""A receiver that makes its own data: records at a chosen rate, of a chosen shape, from a seed."""
