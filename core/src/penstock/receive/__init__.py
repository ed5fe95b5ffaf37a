"""The executor side of receivers: ``Receiver`` and what runs it, from ``store`` to accepted blocks."""
