"""The authenticated endpoint of a process and its client. Carries messages and Arrow streams without knowing either."""
