"""The first block of a receiver that stores from ``onStart`` on is accepted without delay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# In a fresh process, because this one has imported everything already.
_PROGRAM = """
import json, sys, threading
from pathlib import Path
from penstock import Receiver, ReceiverHost
from penstock.blocks.received_block_handler import LocalBlockHandler

class Greedy(Receiver):
    def onStart(self):
        self.imported = set(sys.modules)
        threading.Thread(target=self.store_all_the_time, daemon=True).start()

    def onStop(self):
        pass

    def store_all_the_time(self):
        while not self.isStopped():
            self.store("a line")

class Blocks(LocalBlockHandler):
    def accept(self, blocks):
        accepted.set()

accepted = threading.Event()
receiver = Greedy()
with ReceiverHost(receiver, Blocks(Path(sys.argv[1]))):
    assert accepted.wait(60)
    print(json.dumps(sorted(set(sys.modules) - receiver.imported)))
"""


def test_nothing_is_imported_between_the_start_of_a_receiver_and_its_first_block(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "blocks")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert json.loads(printed) == []
