"""The conformance checks, a module for each group of them."""
