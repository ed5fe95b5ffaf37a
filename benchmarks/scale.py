"""Many simulated receivers report blocks to a real ReceiverTracker; print the processor time, memory and delays.

usage: python -m benchmarks.scale [--receivers 1000] [--blocks-per-s 5] [--seconds 20] [--hosts 100] [--rates]

Receivers are simulated by processes that register and report blocks as supervisors do: each receiver has a connection
and a reporting thread of its own, and blocks that it stores during a report are in the next one. No block is written
and no Spark runs. The tracker runs in this process, on one core, with batches of one second: blocks are allocated,
packed into partitions, processed and cleaned up as the JobGenerator does it. The simulated receivers have the other
cores. ``--rates`` also sends each receiver a new rate per batch. The same receivers first report to a Flight server
that does nothing: what Arrow Flight itself takes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import multiprocessing
import os
import pstats
import queue
import resource
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple

import psutil
import pyarrow.flight as flight

from penstock import Receiver
from penstock.blocks.block import StoredBlock
from penstock.conf import Settings
from penstock.receive.block_generator import take_waiting
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


class Offered(NamedTuple):
    """What a process with simulated receivers measured.

    Attributes:
        reports: how long each took, seconds.
        delays: of each block, from its storing to the answer, seconds.
        late: how late it stored a block at most, seconds.
        cpu: its processor time, seconds.
        ended: when the last block was accepted, seconds since the epoch.
    """

    reports: list[float]
    delays: list[float]
    late: float
    cpu: float
    ended: float


def simulate(pipe, locations, secret, stream_ids, options):
    """Register receivers and offer their blocks, first to the server that does nothing, then to the tracker."""
    if options.simulator_cores:
        os.sched_setaffinity(0, options.simulator_cores)
    bare_location, location = locations
    token = Token(secret)
    kinds = (UpdateRateLimit, CleanUpBlocks, ReleaseReceiver, StopReceiver)
    endpoint = Endpoint("127.0.0.1", token, dict.fromkeys(kinds, lambda _message: Reply()))
    # Each with a connection of its own, as receivers in different processes have.
    own = [("grpc.use_local_subchannel_pool", 1)]
    call = flight.FlightCallOptions(timeout=600, headers=token.headers())
    clients = {}

    def ask(stream_id, message, kind):
        action = flight.Action(type(message).__name__, to_json(message))
        (result,) = clients[stream_id].do_action(action, call)
        return from_json(kind, result.body.to_pybytes())

    def report(stream_id, blocks):
        return ask(stream_id, AddBlocks(stream_id, 1, blocks), Reply)

    clients |= {each: flight.FlightClient(bare_location, generic_options=own) for each in stream_ids}
    for stream_id in stream_ids:
        report(stream_id, [])
    pipe.send(None)
    pipe.send(offer(stream_ids, report, pipe.recv(), BARE_S, options))
    for each in clients.values():
        each.close()
    clients |= {each: flight.FlightClient(location, generic_options=own) for each in stream_ids}
    for stream_id in stream_ids:
        directory = f"/local/host-{stream_id % options.hosts}/penstock/run"
        message = RegisterReceiver(stream_id, 1, "Silent", endpoint.port, "127.0.0.1", directory, 1 << 40)
        assert ask(stream_id, message, Registered).accepted
    pipe.send(None)
    pipe.send(offer(stream_ids, report, pipe.recv(), options.seconds, options))
    pipe.recv()


def offer(stream_ids, report, begin, seconds, options):
    """Let each receiver store blocks at an even pace and report them; return what that took."""
    queues = {stream_id: queue.Queue() for stream_id in stream_ids}
    reports, delays = [], []

    def reporting(stream_id):
        # A BlockGenerator's thread of this name does the same.
        while dues := take_waiting(queues[stream_id]):
            asked = time.perf_counter()
            blocks = [stored_block(stream_id, number, options.hosts) for number, _due in dues]
            assert report(stream_id, blocks).accepted
            reports.append(time.perf_counter() - asked)
            answered = time.time()
            delays.extend(answered - due for _number, due in dues)

    pool = ThreadPoolExecutor(len(stream_ids))
    threads = [pool.submit(reporting, stream_id) for stream_id in stream_ids]
    cpu, late = time.process_time(), 0.0
    for number in range(seconds * options.blocks_per_s):
        for position, stream_id in enumerate(stream_ids):
            due = begin + (number + position / len(stream_ids)) / options.blocks_per_s
            wait = due - time.time()
            if wait > 0:
                time.sleep(wait)
            late = max(late, -wait)
            queues[stream_id].put((number, due))
    for each in queues.values():
        each.put(None)
    for each in threads:
        each.result()
    pool.shutdown()
    return Offered(reports, delays, late, time.process_time() - cpu, time.time())


def stored_block(stream_id, number, hosts):
    """A block, as a receiver describes it."""
    name = f"input-{stream_id}-1-{number}"
    path = f"/local/host-{stream_id % hosts}/penstock/run/{name}.arrow"
    return StoredBlock(name, stream_id, RECORDS, BLOCK_BYTES, path, arrival_ms=int(time.time() * 1000))


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
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])
    options.simulator_cores = cores[1:]
    if not cores[1:]:
        print("One core: the simulated receivers share that of the tracker, and their delays are no measure.")
    tracker = make_tracker(options)
    tracker.start()
    wanted = options.receivers * options.blocks_per_s
    print(f"{options.receivers} receivers on {options.hosts} hosts, {options.blocks_per_s} blocks/s each: {wanted}/s")
    launcher, nothing = tracker._launcher, Nothing("grpc://127.0.0.1:0")
    locations = f"grpc://127.0.0.1:{nothing.port}", launcher.driver_location
    context = multiprocessing.get_context("spawn")
    processes, pipes = [], []
    for number in range(SIMULATORS):
        ours, theirs = context.Pipe()
        streams = list(range(number, options.receivers, SIMULATORS))
        arguments = theirs, locations, launcher.token.secret, streams, options
        processes.append(context.Process(target=simulate, args=arguments))
        processes[-1].start()
        pipes.append(ours)
    _received(pipes)
    bare = measure(pipes, BARE_S, lambda _second: None)
    cpu = time.process_time()
    nothing.shutdown()
    print(f"a Flight server that does nothing: {bare}")
    _received(pipes)
    print(f"registered: {time.process_time() - cpu:.2f} s of processor time")
    gc.collect()
    memory = psutil.Process().memory_info
    rss = memory().rss
    profile = cProfile.Profile() if options.profile else None
    stream_ids, batch_s = list(range(options.receivers)), []

    def on_second(second):
        if profile:
            profile.enable()
        asked = time.thread_time()
        batch(tracker, second + 1, stream_ids, rates=options.rates)
        batch_s.append(time.thread_time() - asked)
        if profile:
            profile.disable()

    began, cpu = time.monotonic(), time.process_time()
    for second in range(IDLE):
        time.sleep(max(began + second + 1 - time.monotonic(), 0))
        on_second(second)
    print(f"without blocks: {(time.process_time() - cpu) / (time.monotonic() - began):.3f} cores")
    batch_s.clear()
    print(f"tracker: {measure(pipes, options.seconds, lambda second: on_second(IDLE + second))}")
    middle, longest = statistics.median(batch_s) * 1000, max(batch_s) * 1000
    print(f"batch, on the generator's thread: {middle:.0f} ms, at most {longest:.0f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"memory: {rss >> 20} MB with all registered, {memory().rss >> 20} MB at the end, {peak >> 20} MB at most")
    # From here on messages to the simulated receivers fail.
    set_level("CRITICAL")
    for process in processes:
        process.kill()
    if profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    # Without a stop and a release, which wait for jobs: these are simulated.
    sys.stdout.flush()
    os._exit(0)


def measure(pipes, seconds, on_second):
    """Have the simulated receivers offer blocks for some seconds; return what that took, as text.

    Everything is counted until the last block is accepted.
    """
    begin, cpu = time.time() + 0.5, time.process_time()
    for each in pipes:
        each.send(begin)
    for second in range(seconds):
        time.sleep(max(begin + second + 1 - time.time(), 0))
        on_second(second)
    offered = _received(pipes)
    cpu, wall = time.process_time() - cpu, max(each.ended for each in offered) - begin
    reports, delays = (sorted(chain.from_iterable(each)) for each in zip(*(each[:2] for each in offered), strict=True))
    micros = cpu * 1e6
    simulators = [f"{each.cpu / wall:.2f} cores, {each.late * 1000:.0f} ms late at most" for each in offered]
    return "\n    ".join(
        [
            f"{len(delays) / wall:.0f} blocks/s accepted, {len(delays) / len(reports):.2f} blocks a report",
            f"{cpu / wall:.2f} cores, {micros / len(delays):.0f} us a block, {micros / len(reports):.0f} us a report",
            f"report: {_spread(reports)}; block, from its storing to the answer: {_spread(delays)}",
            f"processes with simulated receivers: {'; '.join(simulators)}",
        ]
    )


def _received(pipes):
    return [each.recv() for each in pipes]


def _spread(delays):
    middle, late = delays[len(delays) // 2] * 1000, delays[int(len(delays) * 0.99)] * 1000
    return f"median {middle:.1f} ms, p99 {late:.1f} ms"


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
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rates", action="store_true", help="send each receiver a new rate per batch")
    parser.add_argument("--profile", action="store_true", help="print what the batches cost")
    run(parser.parse_args())
