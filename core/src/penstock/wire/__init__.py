"""A process's authenticated endpoint and its client. Carries messages and Arrow streams without interpreting them."""
