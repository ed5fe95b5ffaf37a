"""The version of all distributions: they carry one.

Owns the number and nothing else.
"""

__version__ = "0.1.0"
