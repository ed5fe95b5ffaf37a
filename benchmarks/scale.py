"""Many simulated receivers report blocks to a real ReceiverTracker; print the processor time, memory and delays.

usage: python -m benchmarks.scale [LOAD ...] [--seconds 20] [--hosts 100] [--remember 3] [--rates] [--profile]

A LOAD is RECEIVERSxBLOCKS or RECEIVERSxBLOCKSxSTREAMS: 1000x5, the default, are 1,000 receivers that store 5 blocks/s
each. Every receiver has an input stream of its own; 1000x5x1 unites these into one stream. Each load runs in a fresh
process; a Markdown table of all loads follows.

Receivers are simulated by processes that register and report blocks as supervisors do: each receiver has a connection
and a reporting thread of its own, and blocks that it stores during a report are in the next one. No block is written
and no Spark runs. The tracker runs in this process, on one core, with batches of one second: blocks are allocated,
packed into partitions, processed and cleaned up as the JobGenerator does it. The simulated receivers have the other
cores. ``--rates`` also sends each receiver a new rate per batch. The same receivers first report to a Flight server
that does nothing: what Arrow Flight itself takes. Batches without blocks follow: what silent receivers cost.
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
from penstock.receive.messages import (
    AddBlocks,
    CleanUpBlocks,
    Registered,
    RegisterReceiver,
    ReleaseReceiver,
    StopReceiver,
    UpdateRateLimit,
    launch_name,
)
from penstock.runtime.clock import SystemClock
from penstock.runtime.log import set_level
from penstock.spark import cluster
from penstock.spark.cluster import TaskLocation
from penstock.track import receiver_launcher
from penstock.track.received_block_tracker import ReceivedBlockTracker
from penstock.track.receiver_tracker import ReceiverTracker
from penstock.wire.endpoint import Endpoint
from penstock.wire.json_codec import Reply, from_json, to_json
from penstock.wire.token import CODE_BYTES, content_of

SIMULATORS = 2
RECORDS, BLOCK_BYTES = 1000, 100_000
# The server that does nothing and the silent receivers are measured for this fraction (1/4) of the time.
SHARE = 4
CONTEXT = multiprocessing.get_context("spawn")
#: Columns of the table; pairs are median and p99.
COLUMNS = (
    "receivers",
    "streams",
    "blocks/s offered",
    "blocks/s accepted",
    "blocks per report",
    "report, ms",
    "block, ms",
    "batch, ms",
    "cores, no blocks",
    "cores",
    "MB registered",
    "MB, peak",
)


class Load(NamedTuple):
    """One simulated load.

    Attributes:
        receivers: how many.
        blocks_per_s: that each receiver stores.
        streams: how many streams read the blocks: fewer than the receivers if unions read them.
    """

    receivers: int
    blocks_per_s: int
    streams: int


def load(text):
    """The load of an argument."""
    receivers, blocks_per_s, *streams = map(int, text.split("x"))
    return Load(receivers, blocks_per_s, *streams or [receivers])


class Silent(Receiver):
    """Receives nothing."""

    def onStart(self):
        """Nothing to start."""


class SparkContext:
    """The part of Spark's SparkContext that the tracker uses."""

    applicationId, master, defaultParallelism, _jvm = "app-scale", "spark://simulated", 1000, None

    def getConf(self):
        """The configuration."""
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Job:
    """Stands in for the Spark job of a receiver."""

    def __init__(self, _sc, task, _hosts, on_end):
        self.task = task
        self.group = str(task.stream_id)
        self._on_end = on_end
        self._ended = threading.Event()

    def start(self):
        """Nothing to do: the simulators start receivers."""

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
        yield flight.Result(bytes(CODE_BYTES) + b"{}")


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


class Accepted(NamedTuple):
    """The cost of accepting blocks.

    Attributes:
        blocks_per_s: how many were accepted, until the last one was.
        cores: processor time of this process by duration.
        reports: how long each took, seconds, in order.
        delays: of each block, from its storing to the answer, seconds, in order.
        simulators: what the processes with simulated receivers measured.
    """

    blocks_per_s: float
    cores: float
    reports: list[float]
    delays: list[float]
    simulators: list[str]

    def __str__(self):
        """Text of several lines."""
        micros = self.cores / self.blocks_per_s * 1e6
        per_report = len(self.delays) / len(self.reports)
        return "\n    ".join(
            [
                f"{self.blocks_per_s:.0f} blocks/s accepted, {per_report:.2f} blocks per report",
                f"{self.cores:.2f} cores, {micros:.0f} us a block, {micros * per_report:.0f} us a report",
                f"report: {_spread(self.reports)}; block, from its storing to the answer: {_spread(self.delays)}",
                f"processes with simulated receivers: {'; '.join(self.simulators)}",
            ]
        )


def simulate(pipe, locations, token, stream_ids, load, options):
    """Register receivers and offer their blocks, first to the server that does nothing, then to the tracker."""
    if options.simulator_cores:
        os.sched_setaffinity(0, options.simulator_cores)
    bare_location, location = locations
    kinds = (UpdateRateLimit, CleanUpBlocks, ReleaseReceiver, StopReceiver)
    tokens = {stream_id: token.derive(launch_name(stream_id, 1)) for stream_id in stream_ids}
    # With the driver's token it takes commands for every launch.
    endpoint = Endpoint("127.0.0.1", token, dict.fromkeys(kinds, lambda _message: Reply()))
    # Each with a connection of its own, as receivers in different processes have.
    own = [("grpc.use_local_subchannel_pool", 1)]
    clients = {}

    def ask(stream_id, message, kind):
        name, body = type(message).__name__, to_json(message)
        headers = tokens[stream_id].sign(content_of(name, body)).headers()
        call = flight.FlightCallOptions(timeout=600, headers=headers)
        (result,) = clients[stream_id].do_action(flight.Action(name, body), call)
        return from_json(kind, result.body.to_pybytes()[CODE_BYTES:])

    def report(stream_id, blocks):
        return ask(stream_id, AddBlocks(stream_id, 1, blocks), Reply)

    clients |= {stream_id: flight.FlightClient(bare_location, generic_options=own) for stream_id in stream_ids}
    for stream_id in stream_ids:
        report(stream_id, [])
    pipe.send(None)
    pipe.send(offer(stream_ids, report, pipe.recv(), load, _share(options), options.hosts))
    for client in clients.values():
        client.close()
    clients |= {stream_id: flight.FlightClient(location, generic_options=own) for stream_id in stream_ids}
    for stream_id in stream_ids:
        directory = f"/local/host-{stream_id % options.hosts}/penstock/run"
        message = RegisterReceiver(stream_id, 1, "Silent", endpoint.port, "127.0.0.1", directory, 1 << 40)
        assert ask(stream_id, message, Registered).accepted
    pipe.send(None)
    pipe.send(offer(stream_ids, report, pipe.recv(), load, options.seconds, options.hosts))
    pipe.recv()


def offer(stream_ids, report, begin, load, seconds, hosts):
    """Let each receiver store blocks at an even pace and report them; return the measurements."""
    queues = {stream_id: queue.Queue() for stream_id in stream_ids}
    reports, delays = [], []

    def take_waiting(waiting):
        """All items that wait in a queue, at least one; an empty list after ``None``."""
        items = []
        while (item := waiting.get()) is not None:
            items.append(item)
            if waiting.empty():
                return items
        if items:
            waiting.put(None)
        return items

    def reporting(stream_id):
        # As a BlockPusher does, blocks stored during a report are reported together.
        while dues := take_waiting(queues[stream_id]):
            asked = time.perf_counter()
            blocks = [stored_block(stream_id, number, hosts) for number, _due in dues]
            assert report(stream_id, blocks).accepted
            reports.append(time.perf_counter() - asked)
            answered = time.time()
            delays.extend(answered - due for _number, due in dues)

    pool = ThreadPoolExecutor(len(stream_ids))
    threads = [pool.submit(reporting, stream_id) for stream_id in stream_ids]
    cpu, late = time.process_time(), 0.0
    for number in range(seconds * load.blocks_per_s):
        for position, stream_id in enumerate(stream_ids):
            due = begin + (number + position / len(stream_ids)) / load.blocks_per_s
            wait = due - time.time()
            if wait > 0:
                time.sleep(wait)
            late = max(late, -wait)
            queues[stream_id].put((number, due))
    for due_blocks in queues.values():
        due_blocks.put(None)
    for thread in threads:
        thread.result()
    pool.shutdown()
    return Offered(reports, delays, late, time.process_time() - cpu, time.time())


def stored_block(stream_id, number, hosts):
    """A block, as a receiver describes it."""
    name = f"input-{stream_id}-1-{number}"
    path = f"/local/host-{stream_id % hosts}/penstock/run/{name}.arrow"
    return StoredBlock(name, stream_id, RECORDS, BLOCK_BYTES, path, arrival_ms=int(time.time() * 1000))


def make_tracker(load, options):
    """A started tracker, with Spark simulated."""
    executors = [TaskLocation(f"host-{number}", str(number)) for number in range(options.hosts)]
    cluster.executors = lambda _sc: executors
    cluster.executor_ids = lambda _sc: frozenset(executor.executor_id for executor in executors)
    cluster.running_task = lambda _sc, group: executors[int(group) % options.hosts]
    receiver_launcher.ReceiverJob = Job
    settings = Settings.parse(
        {"spark.penstock.receiver.launchTimeout": "0", "spark.penstock.receiver.rebalance": "false"}
    )
    receivers = {stream_id: Silent() for stream_id in range(load.receivers)}
    events = []
    launcher = receiver_launcher.ReceiverLauncher(SparkContext(), receivers, settings)
    return ReceiverTracker(launcher, ReceivedBlockTracker(receivers), SystemClock(), events.append, events.append)


def run(result, load, options):
    """Run the simulation, print the results, send them as a row of the table and end the process."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])
    options.simulator_cores = cores[1:]
    if not cores[1:]:
        print("One core: the simulated receivers share that of the tracker, and their delays are no measure.")
    tracker = make_tracker(load, options)
    tracker.start()
    wanted = load.receivers * load.blocks_per_s
    print(f"{load.receivers} receivers on {options.hosts} hosts, {load.blocks_per_s} blocks/s each: {wanted}/s")
    launcher, nothing = tracker._launcher, Nothing("grpc://127.0.0.1:0")
    locations = f"grpc://127.0.0.1:{nothing.port}", launcher.driver_location
    processes, pipes = [], []
    for number in range(SIMULATORS):
        ours, theirs = CONTEXT.Pipe()
        streams = list(range(number, load.receivers, SIMULATORS))
        arguments = theirs, locations, launcher.token, streams, load, options
        processes.append(CONTEXT.Process(target=simulate, args=arguments, daemon=True))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    _received(pipes)
    bare = measure(pipes, _share(options), lambda _second: None)
    cpu = time.process_time()
    nothing.shutdown()
    print(f"a Flight server that does nothing: {bare}")
    _received(pipes)
    print(f"registered: {time.process_time() - cpu:.2f} s of processor time")
    gc.collect()
    registered = psutil.Process().memory_info().rss
    profile = cProfile.Profile() if options.profile else None
    batches = []

    def on_second(second):
        if profile:
            profile.enable()
        asked = time.perf_counter()
        batch(tracker, second + 1, load, options)
        batches.append(time.perf_counter() - asked)
        if profile:
            profile.disable()

    began, cpu, idle_s = time.monotonic(), time.process_time(), _share(options)
    for second in range(idle_s):
        time.sleep(max(began + second + 1 - time.monotonic(), 0))
        on_second(second)
    idle_cores = (time.process_time() - cpu) / (time.monotonic() - began)
    print(f"without blocks: {idle_cores:.3f} cores")
    batches.clear()
    accepted = measure(pipes, options.seconds, lambda second: on_second(idle_s + second))
    print(f"tracker: {accepted}\nbatch, on the generator's thread: {_spread(sorted(batches))}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory: {registered >> 20} MB with all registered, {peak:.0f} MB at most")
    # From here on messages to the simulated receivers fail.
    set_level("CRITICAL")
    for process in processes:
        process.kill()
    if profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(25)
    # Without a stop and a release, which wait for jobs: these are simulated.
    sys.stdout.flush()
    row = [
        f"{load.receivers:,}",
        f"{load.streams:,}",
        f"{wanted:,}",
        f"{accepted.blocks_per_s:,.0f}",
        f"{len(accepted.delays) / len(accepted.reports):.2f}",
        *map(_pair, (accepted.reports, accepted.delays, sorted(batches))),
        f"{idle_cores:.2f}",
        f"{accepted.cores:.2f}",
        f"{registered >> 20}",
        f"{peak:.0f}",
    ]
    result.send(row)
    os._exit(0)


def measure(pipes, seconds, on_second):
    """Let the simulated receivers offer blocks for some seconds; return the cost of accepting them.

    Everything is counted until the last block is accepted.
    """
    begin, cpu = time.time() + 0.5, time.process_time()
    for pipe in pipes:
        pipe.send(begin)
    for second in range(seconds):
        time.sleep(max(begin + second + 1 - time.time(), 0))
        on_second(second)
    offered = _received(pipes)
    cpu, wall = time.process_time() - cpu, max(seconds, *(simulator.ended - begin for simulator in offered))
    reports, delays = (
        sorted(chain.from_iterable(values)) for values in zip(*(values[:2] for values in offered), strict=True)
    )
    simulators = [
        f"{simulator.cpu / wall:.2f} cores, {simulator.late * 1000:.0f} ms late at most" for simulator in offered
    ]
    return Accepted(len(delays) / wall, cpu / wall, reports, delays, simulators)


def _share(options):
    return max(options.seconds // SHARE, 1)


def _received(pipes):
    return [pipe.recv() for pipe in pipes]


def _middle_and_late(delays):
    return delays[len(delays) // 2] * 1000, delays[int(len(delays) * 0.99)] * 1000


def _spread(delays):
    middle, late = _middle_and_late(delays)
    return f"median {middle:.1f} ms, p99 {late:.1f} ms"


def _pair(delays):
    middle, late = _middle_and_late(delays)
    return f"{middle:,.0f} / {late:,.0f}" if late >= 10 else f"{middle:.1f} / {late:.1f}"


def batch(tracker, number, load, options):
    """The generator's calls to the tracker for one batch."""
    time_ms, stream_ids = number * 1000, range(load.receivers)
    tracker.allocate_blocks_to_batch(time_ms)
    for stream_id in stream_ids:
        tracker.partitions(time_ms, [stream_id], 1000)
        tracker.input_info(time_ms, stream_id)
    if load.streams < load.receivers:
        for stream in range(load.streams):
            tracker.partitions(time_ms, stream_ids[stream :: load.streams], 1000)
    tracker.processed(time_ms)
    tracker.clean_up((number - options.remember) * 1000, delete=True)
    if options.rates:
        for stream_id in stream_ids:
            tracker.send_rate_update(stream_id, 1000.0 + number + stream_id)


def main(options):
    """Run every load in a process of its own; print the table."""
    # An overloaded tracker takes longer than the blocks are offered, until it has accepted all.
    rows, limit_s = [], 60 + 5 * options.seconds
    for load in options.loads:
        ours, theirs = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=run, args=(theirs, load, options))
        process.start()
        theirs.close()
        try:
            if ours.poll(limit_s):
                rows.append(ours.recv())
            else:
                print(f"{load}: not finished within {limit_s} s")
        except EOFError:
            print(f"{load}: failed")
        process.kill()
        process.join()
    print()
    for row in [COLUMNS, ["---:"] * len(COLUMNS), *rows]:
        print(f"| {' | '.join(row)} |")
    return len(options.loads) - len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="*", metavar="LOAD", type=load, default=[Load(1000, 5, 1000)])
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--remember", type=int, default=3, help="batches whose blocks are needed; 3 without windows")
    parser.add_argument("--rates", action="store_true", help="send each receiver a new rate per batch")
    parser.add_argument("--profile", action="store_true", help="print what the batches cost")
    sys.exit(main(parser.parse_args()))
