"""Many simulated receivers report blocks to a real ReceiverTracker; print the processor time, memory and delays.

usage: python -m benchmarks.scale [--receivers 1000] [--blocks-per-s 5] [--blocks-per-report 1] [--seconds 20]
    [--hosts 100] [--rates]

Receivers are simulated by processes that register and report blocks as supervisors do, each receiver over a connection
of its own; no block is written and no Spark runs. The tracker runs in this process, on one core, with batches of one
second: blocks are allocated, packed into partitions, processed and cleaned up as the JobGenerator does it. ``--rates``
also sends each receiver a new rate per batch. Processor time per block is what counts on a busy machine: where the
simulation cannot keep its pace, that is printed, and the share of a core follows from the time per block. With
``--blocks-per-report N`` each receiver reports N blocks in a message, as it does by itself where N blocks are stored
during a report: what a driver costs that does not keep up. The same
messages over as many connections are first sent to a Flight server that does nothing: what Arrow Flight itself takes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import multiprocessing
import os
import pstats
import resource
import statistics
import sys
import threading
import time

import psutil
import pyarrow.flight as flight

from penstock import Receiver
from penstock.blocks.block import StoredBlock
from penstock.conf import Settings
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    StopReceiver,
    UpdateRateLimit,
)
from penstock.runtime.clock import SystemClock
from penstock.runtime.log import set_level
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_launcher
from penstock.track.receiver_tracker import ReceiverTracker
from penstock.wire.endpoint import Endpoint
from penstock.wire.messages import Reply, from_json, to_json
from penstock.wire.token import Token

SIMULATORS = 2
RECORDS, BLOCK_BYTES = 1000, 100_000
# Batches whose blocks are remembered, as by a program without windows.
REMEMBERED = 3
# Batches before the first block: what receivers cost that store nothing.
IDLE = 5
# How long the server that does nothing is measured.
BARE_S = 5


class Silent(Receiver):
    """Receives nothing."""

    def onStart(self):
        """Nothing to start."""


class SparkContext:
    """What the tracker asks of Spark's."""

    applicationId, master, defaultParallelism, _jvm = "app-scale", "spark://simulated", 1000, None

    def getConf(self):
        """The configuration."""
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Job:
    """Stands in for the Spark job of a receiver."""

    def __init__(self, _sc, task, _hosts, on_end):
        self.task, self.group, self._on_end, self._ended = task, str(task.stream_id), on_end, threading.Event()

    def start(self):
        """The simulators start receivers."""

    def cancel(self):
        """End."""
        self._ended.set()
        self._on_end(None)

    def finish(self, timeout_s):
        """Say whether it has ended."""
        return self._ended.wait(timeout_s)


class Nothing(flight.FlightServerBase):
    """Answers at once."""

    def do_action(self, _context, _action):
        """Answer."""
        yield flight.Result(b"{}")


def simulate(pipe, location, bare_location, secret, stream_ids, options):
    """Register receivers, then report their blocks at an even pace; send how long the reports took."""
    token = Token(secret)
    kinds = (UpdateRateLimit, CleanUpBlocks, ReleaseReceiver, StopReceiver)
    endpoint = Endpoint("127.0.0.1", token, dict.fromkeys(kinds, lambda _message: Reply()))
    # Each with a connection of its own, as receivers in different processes have.
    own = [("grpc.use_local_subchannel_pool", 1)]
    clients = {each: flight.FlightClient(bare_location, generic_options=own) for each in stream_ids}
    call = flight.FlightCallOptions(timeout=60, headers=token.headers())

    def ask(stream_id, message, kind):
        action = flight.Action(type(message).__name__, to_json(message))
        (result,) = clients[stream_id].do_action(action, call)
        return from_json(kind, result.body.to_pybytes())

    together = options.blocks_per_report

    def stored_block(stream_id, number):
        name = f"input-{stream_id}-1-{number}"
        path = f"/local/host-{stream_id % options.hosts}/penstock/run/{name}.arrow"
        return StoredBlock(name, stream_id, RECORDS, BLOCK_BYTES, path)

    def add_blocks(stream_id, number):
        blocks = [stored_block(stream_id, each) for each in range(number * together, (number + 1) * together)]
        return AddBlocks(stream_id, 1, blocks)

    for stream_id in stream_ids:
        ask(stream_id, add_blocks(stream_id, 0), Reply)
    pipe.send(None)
    begin = pipe.recv()
    reports_per_s = options.blocks_per_s / together
    for number in range(int(BARE_S * reports_per_s)):
        for position, stream_id in enumerate(stream_ids):
            due = begin + (number + position / len(stream_ids)) / reports_per_s
            time.sleep(max(due - time.time(), 0))
            ask(stream_id, add_blocks(stream_id, number), Reply)
    pipe.send(None)
    for each in clients.values():
        each.close()
    clients.update({each: flight.FlightClient(location, generic_options=own) for each in stream_ids})
    for stream_id in stream_ids:
        directory = f"/local/host-{stream_id % options.hosts}/penstock/run"
        message = RegisterReceiver(stream_id, 1, "Silent", endpoint.port, "127.0.0.1", directory, 1 << 40)
        assert ask(stream_id, message, Registered).accepted
    pipe.send(None)
    begin = pipe.recv()
    period = 1 / reports_per_s
    reported, behind, took, batches = 0, 0.0, [], 0
    for number in range(int(options.seconds * reports_per_s)):
        for position, stream_id in enumerate(stream_ids):
            due = begin + (number + position / len(stream_ids)) * period
            wait = due - time.time()
            if wait > 0:
                time.sleep(wait)
            behind = max(behind, -wait)
            asked = time.perf_counter()
            assert ask(stream_id, add_blocks(stream_id, number), Reply).accepted
            took.append(time.perf_counter() - asked)
            reported += together
        while batches < int((number + 1) * period):
            batches += 1
            pipe.send(None)
    for _ in range(options.seconds - batches):
        pipe.send(None)
    pipe.send((reported, took, behind))
    pipe.recv()


def make_tracker(options):
    """A started tracker, with Spark simulated."""
    executors = [TaskLocation(f"host-{number}", str(number)) for number in range(options.hosts)]
    cluster.executors = lambda _sc: executors
    cluster.executor_ids = lambda _sc: frozenset(each.executor_id for each in executors)
    cluster.running_task = lambda _sc, group: executors[int(group) % options.hosts]
    receiver_launcher.ReceiverJob = Job
    settings = Settings.parse(
        {"spark.penstock.receiver.launchTimeout": "0", "spark.penstock.receiver.rebalance": "false"}
    )
    receivers = {stream_id: Silent() for stream_id in range(options.receivers)}
    events = []
    return ReceiverTracker(SparkContext(), receivers, settings, SystemClock(), events.append, events.append)


def run(options):
    """Run the simulation, print the results."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tracker = make_tracker(options)
    started = time.process_time()
    tracker.start()
    print(f"{options.receivers} receivers on {options.hosts} hosts, {options.blocks_per_s} blocks/s each")
    print(f"launched: {time.process_time() - started:.2f} s of processor time")
    launcher, simulators, nothing = tracker._launcher, [], Nothing("grpc://127.0.0.1:0")
    context = multiprocessing.get_context("spawn")
    for number in range(SIMULATORS):
        ours, theirs = context.Pipe()
        streams = list(range(number, options.receivers, SIMULATORS))
        bare_location = f"grpc://127.0.0.1:{nothing.port}"
        arguments = (theirs, launcher.driver_location, bare_location, launcher.token.secret, streams, options)
        process = context.Process(target=simulate, args=arguments)
        process.start()
        simulators.append((process, ours))
    launched = time.process_time() - started
    bare = bare_call_s(simulators, options)
    nothing.shutdown()
    started = time.process_time() - launched
    for _process, pipe in simulators:
        pipe.recv()
    print(f"registered: {time.process_time() - started:.2f} s of processor time")
    gc.collect()
    memory = psutil.Process().memory_info
    rss = memory().rss
    profile = cProfile.Profile() if options.profile else None
    stream_ids = list(range(options.receivers))
    began, cpu = time.monotonic(), time.process_time()
    for number in range(1, IDLE + 1):
        time.sleep(max(began + number - time.monotonic(), 0))
        batch(tracker, number, stream_ids, rates=options.rates)
    fixed = (time.process_time() - cpu) / (time.monotonic() - began)
    begin = time.time() + 0.5
    for _process, pipe in simulators:
        pipe.send(begin)
    cpu, batch_s, began = time.process_time(), [], time.monotonic()
    for number in range(IDLE + 1, IDLE + 1 + options.seconds):
        # A batch for the blocks of a second, however long the simulation takes for these.
        for _process, pipe in simulators:
            pipe.recv()
        if profile:
            profile.enable()
        asked = time.thread_time()
        batch(tracker, number, stream_ids, rates=options.rates)
        batch_s.append(time.thread_time() - asked)
        if profile:
            profile.disable()
    results = [pipe.recv() for _process, pipe in simulators]
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    blocks, took = sum(each[0] for each in results), sorted(each for result in results for each in result[1])
    wanted = options.receivers * options.blocks_per_s
    late = max(each[2] for each in results)
    print(f"blocks: {blocks} in {wall:.1f} s, {blocks / wall:.0f}/s; the simulation was {late:.1f} s late at most")
    each = max(cpu - fixed * wall, 0) / blocks
    print(f"processor time of the tracker: {fixed:.3f} s a second without blocks, {each * 1e6:.0f} us a block")
    ratio = each * options.blocks_per_report / bare
    print(f"a Flight server that does nothing: {bare * 1e6:.0f} us a call; ratio of a report {ratio:.2f}")
    print(f"share of a core at {wanted} blocks/s: {fixed + each * wanted:.2f}")
    middle, longest = statistics.median(batch_s) * 1000, max(batch_s) * 1000
    print(f"batch, on the generator's thread: {middle:.0f} ms, at most {longest:.0f} ms")
    middle, late = took[len(took) // 2] * 1000, took[int(len(took) * 0.99)] * 1000
    print(f"report: median {middle:.1f} ms, p99 {late:.1f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"memory: {rss >> 20} MB with all registered, {memory().rss >> 20} MB at the end, {peak >> 20} MB at most")
    # From here on messages to the simulated receivers fail.
    set_level("CRITICAL")
    for process, _pipe in simulators:
        process.kill()
    if profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    # Without a stop and a release, which wait for jobs: these are simulated.
    sys.stdout.flush()
    os._exit(0)


def bare_call_s(simulators, options):
    """The processor time that a call takes in a Flight server that does nothing."""
    for _process, pipe in simulators:
        pipe.recv()
    begin, cpu = time.time() + 0.5, time.process_time()
    for _process, pipe in simulators:
        pipe.send(begin)
    for _process, pipe in simulators:
        pipe.recv()
    calls = int(BARE_S * options.blocks_per_s / options.blocks_per_report) * options.receivers
    return (time.process_time() - cpu) / calls


def batch(tracker, number, stream_ids, *, rates):
    """What the generator asks of the tracker for one batch."""
    time_ms = number * 1000
    tracker.allocate_blocks_to_batch(time_ms)
    for stream_id in stream_ids:
        tracker.count(time_ms, stream_id)
        tracker.partitions(time_ms, [stream_id], 1000)
    tracker.processed(time_ms)
    tracker.clean_up((number - REMEMBERED) * 1000, delete=True)
    if rates:
        for stream_id in stream_ids:
            tracker.send_rate_update(stream_id, 1000.0 + number + stream_id)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receivers", type=int, default=1000)
    parser.add_argument("--blocks-per-s", type=int, default=5)
    parser.add_argument("--blocks-per-report", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rates", action="store_true", help="send each receiver a new rate per batch")
    parser.add_argument("--profile", action="store_true", help="print what the batches cost")
    run(parser.parse_args())
