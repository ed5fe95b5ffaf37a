"""The version of all distributions: they carry one."""

__version__ = "0.1.0"
