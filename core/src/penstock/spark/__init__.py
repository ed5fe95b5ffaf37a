"""The only package that touches Py4J: calls of Spark's JVM that PySpark does not offer."""
