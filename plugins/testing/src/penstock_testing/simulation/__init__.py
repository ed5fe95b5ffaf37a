"""A simulator: the whole engine in one process, on virtual time, in an order that a seed decides."""
