"""Store blocks with the receiver write-ahead log off and on, and read them with and without checksums; print MB/s.

usage: block_log.py DIRECTORY [BLOCKS [RECORDS]]

One receiver calls ``store_all`` with lists of 100-byte strings; each call returns when its block is stored and a driver
in another process has accepted it. The rates are those of the median block. DIRECTORY should be on the disk to measure.
"""

import multiprocessing
import shutil
import statistics
import sys
import time
from pathlib import Path

from penstock import Receiver
from penstock.blocks import arrow_form
from penstock.blocks.block import BlockReference
from penstock.blocks.received_block_handler import LocalBlockHandler, WriteAheadLogBlockHandler
from penstock.conf import Settings
from penstock.receive.messages import AddBlocks, DeregisterReceiver, Registered, RegisterReceiver
from penstock.receive.receiver_supervisor import ReceiverSupervisor
from penstock.wire.client import Client
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply
from penstock.wire.token import Token
from penstock.worker.block_reader import read_block

TOKEN = Token("benchmark")
directory = Path(sys.argv[1]) / "block-log-benchmark"
blocks, size = (int(text) for text in (sys.argv[2:] + ["100", "20000"][len(sys.argv) - 2 :])[:2])


class Idle(Receiver):
    """A receiver whose ``store_all`` the benchmark calls."""

    def onStart(self):
        """Nothing to start."""


def drive(port):
    """Run the driver's endpoint, which accepts every block."""
    handlers = {RegisterReceiver: lambda _message: Registered(True)}
    handlers |= dict.fromkeys([AddBlocks, DeregisterReceiver], lambda _message: Reply())
    endpoint = Endpoint("127.0.0.1", TOKEN, handlers)
    port.send(endpoint.port)
    port.recv()
    endpoint.stop()


def timed(function, *arguments):
    """Return how many seconds a call takes."""
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


class Remembering:
    """A block handler that remembers what another one stored, and deletes nothing."""

    def __init__(self, handler):
        self.handler = handler
        self.stored = []

    def store(self, block):
        """Store a block."""
        self.stored.append(self.handler.store(block))
        return self.stored[-1]

    def delete(self, _block_ids):
        """Delete nothing."""


def measure(name, handler, port):
    """Print how fast a block handler stores; return the stored blocks."""
    client, receiver, remembering = Client(f"grpc://127.0.0.1:{port}", TOKEN, 10_000), Idle(), Remembering(handler)
    launch = RegisterReceiver(0, 1, "Idle", 0)
    supervisor = ReceiverSupervisor(receiver, launch, Settings.parse({}), client, remembering)
    supervisor.start()
    records = [f"{n:0100d}" for n in range(size)]
    receiver.store_all(records)
    times = [timed(receiver.store_all, records) for _ in range(blocks)]
    supervisor.stop("enough")
    took = statistics.median(times)
    print(f"store_all, {name}: {size * 100 / took / 1e6:,.0f} MB/s, {took * 1000:.2f} ms a block of {size} records")
    return remembering.stored[1:]


def read(name, stored, *, checked, consume):
    """Read blocks, and print how fast."""
    times = []
    for block in stored:
        checksum = block.checksum if checked else None
        times.append(timed(consume, BlockReference(block.block_id, block.path, block.num_records, "", 0, checksum)))
    took = statistics.median(times)
    print(
        f"{name}, {'checked' if checked else 'not checked'}: {size * 100 / took / 1e9:.2f} GB/s, {took * 1000:.2f} ms"
    )


def opened(reference):
    """Map a block without using its data."""
    arrow_form.open_block_file(reference.path, reference.checksum)


def records(reference):
    """Convert a block to Python strings."""
    for _ in arrow_form.records(read_block(reference, TOKEN)):
        pass


if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=drive, args=(theirs,))
    process.start()
    driver_port = ours.recv()
    try:
        stores = {"log off": LocalBlockHandler(directory / "off")}
        stores |= {
            f"log on, {name}": WriteAheadLogBlockHandler(str(directory / name), name) for name in ("flush", "fsync")
        }
        for _ in range(2):
            logged = [measure(name, store, driver_port) for name, store in stores.items()][1]
        for _ in range(2):
            for checked in (False, True):
                read("map", logged, checked=checked, consume=opened)
                read("map and decode", logged, checked=checked, consume=records)
    finally:
        ours.send(None)
        process.join()
        shutil.rmtree(directory, ignore_errors=True)
