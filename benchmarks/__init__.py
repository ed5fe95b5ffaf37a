"""Compares Penstock's speed with its peers': the same work on the same data, alternately, in one run.

``python -m benchmarks --help`` runs comparisons, ``python -m benchmarks.flame`` draws flame graphs and ``python -m
benchmarks.long_run`` watches memory over many batches. The other files are programs of their own: they break or load
one part of Penstock and check or time that part alone.
"""
