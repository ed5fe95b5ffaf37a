"""What is computed: streams, their operators, inputs and outputs. Knows RDDs; starts no thread."""
