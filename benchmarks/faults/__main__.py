"""Break every part between a broker and a sink, and count: ``python -m benchmarks.faults BROKER [--minutes 10]``.

A producer publishes numbers, which the broker confirms. A program on a ``local-cluster``, with write-ahead logs and a
checkpoint, receives them through a proxy, and writes each batch in one transaction of a database. Meanwhile faults
happen, each kind once per round, in an order and for times that are drawn from the seed: the receiver's worker, its
executor, the driver's JVM, the driver and the broker are killed (-9); the worker and the broker are suspended beyond a
lease; the connection is cut; the broker is restarted, with and without its data; the sink is slow; the disk of
blocks, logs and checkpoint is full (a small tmpfs, which only root can mount). After each fault the lab waits until a
number that was sent later is written.

In the end all messages are acknowledged, the program stops gracefully, and what was sent is compared with what was
written. Exits with 1 if an acknowledged number was lost, or a number was written that nobody sent. Only the faults are
seeded: what they hit differs from run to run.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.faults.lab import FaultLab, FaultLabError, table
from benchmarks.faults.sources import SOURCES
from benchmarks.processes import ends_on_sigterm
from penstock_cli.java import ensure_java


def main() -> int:
    """Run the lab; 1 when something was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=SOURCES)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults are injected")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and their times")
    parser.add_argument("--rate", type=float, default=500.0, help="numbers per second")
    parser.add_argument("--recovery", type=float, default=300.0, help="maximum seconds from a fault to a later number")
    parser.add_argument("--master", default="local-cluster[2,2,1024]", help="Spark's master; local[4] has no executors")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="inject this kind; repeatable")
    options = parser.parse_args()
    ensure_java()
    with (
        ends_on_sigterm(),
        FaultLab(
            SOURCES[options.broker](),
            seed=options.seed,
            rate=options.rate,
            master=options.master,
            kinds=options.only,
            recovery_s=options.recovery,
            report=lambda line: print(line, flush=True),
        ) as lab,
    ):
        if unknown := set(options.only) - lab.kinds().keys():
            parser.error(f"no fault {', '.join(sorted(unknown))}; these apply: {', '.join(lab.kinds())}")
        try:
            result = lab.run(options.minutes)
        except FaultLabError as error:
            print(f"FAILED: {error}")
            return 1
    print(table(options.broker, options.seed, result))
    print(f"{result.relaunches} restarts of the program, {result.failed_publishes} publishes not confirmed")
    return not result.comparison.is_sound


if __name__ == "__main__":
    sys.exit(main())
