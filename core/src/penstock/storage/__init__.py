"""One directory on any file system."""
