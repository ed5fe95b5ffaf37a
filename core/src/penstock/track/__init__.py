"""The driver side of receivers: where they run, what they stored, which batch it belongs to."""
