"""Receivers that read from a TCP socket: lines of text, and length-prefixed frames."""
