"""The graph of a program: streams, operators, inputs and outputs. Knows RDDs; starts no thread."""
