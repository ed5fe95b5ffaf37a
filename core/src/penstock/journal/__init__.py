"""The driver write-ahead log: checksummed frames, segment files, and the reader that recovers from them."""
