"""State and windows per key: ``updateStateByKey``, ``mapWithState``, ``reduceByKeyAndWindow``, ``groupByKeyAndWindow``.

Exports nothing: tasks import this package, and programs use ``penstock.StateSpec`` and ``penstock.State``.
"""
