"""Check `spark.streaming.receiver.maxRate` with every form of store at once, from ten threads each, in real time.

usage: max_rate.py [SECONDS] [RATE] [TOTAL]     60 s, 2,000 records/s per receiver, no total maximum

Four receivers store as fast as they are let: singly, by `store_all`, by `store_arrow`, and in all these forms. Each
records when how many records passed its rate limiter; the callers cannot, because they may have waited for the
processor since. It prints by how much, at most, more passed than rate x time, over all periods between two such
moments: no more than the burst, one block interval, if the limit holds. What passed the limiter must equal what is in
batches. Exits with 1 if that is not so, or if less than nine tenths of the rate were stored.
"""

import contextlib
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
from pyspark import SparkConf, SparkContext

from penstock import Receiver, StreamingContext
from penstock.errors import ReceiverStoppedError
from penstock_cli.java import ensure_java

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
rate = float(sys.argv[2]) if len(sys.argv) > 2 else 2000.0
total = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
BURST_S = 0.2
THREADS = 10
FORMS = ("store", "store_all", "store_arrow", "all forms")


class Eager(Receiver):
    """Stores as much as the limiter lets pass, and records when."""

    def __init__(self, form, notes):
        self.form = form
        self.notes = notes

    def onStart(self):
        """Watch the limiter, start the threads."""
        self.passed = []
        limiter = self._Receiver__running()._limiter  # the supervisor's, which the receiver keeps private
        earn = limiter._earn

        def noting():
            # Called with the limiter's lock held.
            before = limiter._used
            earn()
            if limiter._used > before:
                self.passed.append((limiter._earned_at_ms / 1000, limiter._used - before))

        limiter._earn = noting
        for index in range(THREADS):
            form = FORMS[index % 3] if self.form == "all forms" else self.form
            threading.Thread(target=self.receive, args=(form,), daemon=True).start()

    def onStop(self):
        """Write the records to a file; the limiter lets nothing more pass."""
        Path(self.notes).write_text(json.dumps(self.passed))

    def receive(self, form):
        """Store until the receiver stops."""
        many = list(range(1000))
        with contextlib.suppress(ReceiverStoppedError):
            while self.isStarted():
                if form == "store":
                    self.store(1)
                elif form == "store_all":
                    self.store_all(many)
                else:
                    self.store_arrow(pa.table({"value": many}))


def most_above(passed, rate_per_s):
    """The most by which passed records exceed rate x time over any period."""
    before, least, most = 0, 0.0, 0.0
    for now_s, count in passed:
        least = min(least, before - rate_per_s * now_s)
        before += count
        most = max(most, before - rate_per_s * now_s - least)
    return most


ensure_java()
conf = SparkConf().setMaster(f"local[{len(FORMS) + 2}]").setAppName("maximum rate").set("spark.ui.enabled", "false")
conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
conf.set("spark.streaming.receiver.maxRate", str(rate)).set("spark.penstock.maxTotalRate", str(total))
sc = SparkContext(conf=conf)
sc.setLogLevel("OFF")
ssc = StreamingContext(sc, 1)
seen = [0] * len(FORMS)


def count(rdd, number):
    """Count one batch."""
    seen[number] += rdd.count()


with tempfile.TemporaryDirectory() as folder:
    notes = [Path(folder) / f"{number}.json" for number in range(len(FORMS))]
    for number, form in enumerate(FORMS):
        stream = ssc.receiverStream(Eager(form, str(notes[number])))
        stream.foreachRDD(lambda rdd, number=number: count(rdd, number))
    ssc.start()
    while not all(info.active for info in ssc._engine.tracker.receiver_infos().values()):
        time.sleep(0.1)
    time.sleep(seconds)
    ssc.stop(stopSparkContext=False, stopGracefully=True)
    sc.stop()
    passed = [json.loads(note.read_text()) for note in notes]

if total > 0:
    rate = min(rate, total / len(FORMS))
burst = rate * BURST_S
good = True
for form, of_form, in_batches in zip(FORMS, passed, seen, strict=True):
    records, lasted_s = round(sum(count for _, count in of_form)), of_form[-1][0] - of_form[0][0]
    above = most_above(of_form, rate)
    good &= above <= burst + 1e-3 and records >= 0.9 * rate * lasted_s and records == in_batches
    print(
        f"{form}: {records:,} records got past the limit in {lasted_s:.1f} s, {records / lasted_s:,.1f}/s of "
        f"{rate:,.0f}/s; at most rate x time + {above:.1f}, burst {burst:.0f}; {in_batches:,} in batches"
    )
sys.exit(not good)
