"""The file-system layer: locations (paths and URIs), connections, and directories on any file system."""
