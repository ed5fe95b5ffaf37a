"""A process that runs the receiver ``webhook`` and appends its blocks to a file: ``storing_process.py PORT FOLDER``."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import ReceiverHost
from penstock_http import WebhookOptions
from penstock_http.webhook_receiver import WebhookReceiver

if TYPE_CHECKING:
    from penstock import Block


def main(port: str, folder: str) -> None:
    """Receive until the process is killed."""
    with Path(folder, "blocks").open("a") as file:

        def store(block: Block) -> None:
            file.write(json.dumps(list(block.records())) + "\n")
            file.flush()

        with ReceiverHost(WebhookReceiver(WebhookOptions(port=int(port), columns=("value",))), store):
            threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
