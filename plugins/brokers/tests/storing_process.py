"""A process that runs a receiver and appends its blocks to a file, for tests that kill it.

``python storing_process.py NAME OPTIONS FOLDER`` runs the receiver of an installed plugin, with options as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import ReceiverHost
from penstock.spi import Plugins, Settings

if TYPE_CHECKING:
    from penstock import Block

_CONF = {"spark.streaming.blockInterval": "20ms", "spark.streaming.receiverRestartDelay": "100ms"}


@contextmanager
def storing(name: str, options: Mapping[str, Any], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a receiver in a process of its own, which continues after the blocks in the folder; it is killed at the end.

    Args:
        name: of the receiver.
        options: of the receiver.
        folder: where its blocks are.
    """
    process = subprocess.Popen([sys.executable, __file__, name, json.dumps(options), folder])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stored(folder: Path) -> list[Any]:
    """The records that were stored in a folder, in this order."""
    return [record for block in _blocks(folder) for record in block["records"]]


def _blocks(folder: Path) -> list[dict[str, Any]]:
    path = folder / "blocks"
    text = path.read_text() if path.exists() else ""
    # The process may have been killed in the last line.
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def main(name: str, options: str, folder: str) -> None:
    """Receive until the process is killed."""
    position: dict[str, Any] = {}
    for block in _blocks(Path(folder)):
        position |= block["metadata"]
    receiver = Plugins().make("receivers", name, Settings.parse({}), json.loads(options))
    with Path(folder, "blocks").open("a") as file:

        def store(block: Block) -> None:
            # Records and position in one write: a kill leaves both or none.
            file.write(json.dumps({"records": list(block.records()), "metadata": block.metadata or {}}) + "\n")
            file.flush()

        with ReceiverHost(receiver, store, _CONF, position=position):
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
