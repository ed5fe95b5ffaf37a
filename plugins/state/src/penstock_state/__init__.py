"""Keyed state, carried from batch to batch: for ``updateStateByKey``, ``mapWithState`` and windows with an inverse.

Exports nothing: tasks import this package, and programs use ``penstock.StateSpec`` and ``penstock.State``.
"""
