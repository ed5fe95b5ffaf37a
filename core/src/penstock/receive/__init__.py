"""The executor side of receivers: ``Receiver`` and the classes that run it, from ``store`` to accepted blocks."""
