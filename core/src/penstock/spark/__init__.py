"""All that touches Py4J: RDDs with locations, executors, local properties, the Java that runs it."""
