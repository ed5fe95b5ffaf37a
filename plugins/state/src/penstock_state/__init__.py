"""Keyed state: a state per key, carried from batch to batch, for ``updateStateByKey`` and ``mapWithState``.

Exports nothing: tasks import this package, and programs use ``penstock.StateSpec`` and ``penstock.State``.
"""
