"""``python -m penstock``: runs the command of this name, which another distribution brings."""

import importlib.metadata
import sys

from penstock.errors import plugin_distribution

if __name__ == "__main__":
    for command in importlib.metadata.entry_points(group="console_scripts", name="penstock"):
        sys.exit(command.load()())
    sys.exit(f"python -m penstock needs the command of this name: pip install {plugin_distribution('cli')}")
