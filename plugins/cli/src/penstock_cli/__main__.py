"""``python -m penstock``: the ``penstock`` command."""

from penstock_cli import main

if __name__ == "__main__":
    main()
