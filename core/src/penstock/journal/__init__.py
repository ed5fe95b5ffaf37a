"""The write-ahead log: frames, segments, reader."""
