"""The fault lab: a broker, its receiver in a program, and seeded faults of every part; see ``__main__``."""
