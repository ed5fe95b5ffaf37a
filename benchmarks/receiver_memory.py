"""Watch the memory of a receiver's worker while batches are ten times too slow.

usage: receiver_memory.py [SECONDS] [conf=value ...]     600 s

The receiver stores at full speed; the job sleeps for ten batch intervals in each batch that has records. Blocks go to
the disk until the backlog reaches its limit (`spark.penstock.blocks.maxUnprocessed`, 64m here) and the receiver pauses;
from then on it resumes and pauses by turns. The worker's memory may grow while its buffers fill, in the first third of
the run. Exits with 1 if it is more than 30 MB larger at any time after that, or grows by more than 2 MB a minute in a
run of minutes.
"""

import os
import sys
import time
from pathlib import Path

from pyspark import SparkConf, SparkContext

from penstock import StreamingContext, ThreadReceiver
from penstock_cli.java import ensure_java

seconds = float(sys.argv[1]) if len(sys.argv) > 1 and "=" not in sys.argv[1] else 600.0
INTERVAL_S = 0.2
MB_PER_MIN, MOST_MB = 2.0, 30.0


class Flood(ThreadReceiver):
    """Stores lines as fast as possible: singly, and occasionally a thousand reliably."""

    def __init__(self, note):
        self.note = note

    def receive(self):
        """Write down the process id, then store."""
        Path(f"{self.note}.partial").write_text(str(os.getpid()))
        Path(f"{self.note}.partial").rename(self.note)
        line = "x" * 100
        while not self.wait(0):
            for _ in range(1000):
                self.store(line)
            self.store_all([line] * 1000)


def resident_mb(pid):
    """Resident memory of a process, without memory-mapped files."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope(points):
    """The slope of the line through points, by least squares."""
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


ensure_java()
conf = SparkConf().setMaster("local[3]").setAppName("receiver memory").set("spark.ui.enabled", "false")
conf.set("spark.python.unix.domain.socket.enabled", "true").set("spark.ui.showConsoleProgress", "false")
conf.set("spark.penstock.blocks.maxUnprocessed", "64m")
for pair in sys.argv[1:]:
    if "=" in pair:
        conf.set(*pair.split("=", 1))
sc = SparkContext(conf=conf)
sc.setLogLevel("ERROR")
ssc = StreamingContext(sc, INTERVAL_S)
note = Path(sc._temp_dir) / "pid"
seen = 0


def slowly(rdd):
    """Count; take ten times too long for it, unless the receiver was paused and there is nothing."""
    global seen
    count = rdd.count()
    seen += count
    if count:
        time.sleep(10 * INTERVAL_S)


ssc.receiverStream(Flood(str(note))).foreachRDD(slowly)
ssc.start()
# The time counts from the first pause: a slow machine takes its time until then.
deadline = time.monotonic() + 180
while not ssc._engine.tracker.backlog.is_full:
    if time.monotonic() > deadline:
        raise SystemExit("the backlog has not reached its limit within 180 s")
    time.sleep(0.05)
pid = int(note.read_text())
started = time.monotonic()
points = []
most_backlog = 0
printed_s = -1e9
print(f"{'s':>6} {'RSS MB':>8} {'backlog MB':>10} {'records in batches':>19}", flush=True)
while (now_s := time.monotonic() - started) < seconds:
    points.append((now_s, resident_mb(pid)))
    most_backlog = max(most_backlog, ssc._engine.tracker.backlog.num_bytes)
    if now_s - printed_s >= seconds / 20:
        printed_s = now_s
        print(
            f"{now_s:>6.0f} {points[-1][1]:>8.1f} {ssc._engine.tracker.backlog.num_bytes / 1e6:>10.1f} {seen:>19,}",
            flush=True,
        )
    time.sleep(0.25)
later = [point for point in points if point[0] >= seconds / 3]
mb_per_min = slope(later) * 60
most, least = (choose(mb for _, mb in later) for choose in (max, min))
ssc.stop(stopSparkContext=False)
sc.stop()
print(
    f"over the last {later[-1][0] - later[0][0]:.0f} s: {least:.1f} to {most:.1f} MB, slope {mb_per_min:+.2f} MB/min; "
    f"at most {most_backlog / 1e6:.1f} MB backlog; {seen:,} records in batches"
)
first = max(mb for now_s, mb in points if now_s < seconds / 3)
sys.exit(most - first > MOST_MB or (seconds >= 90 and mb_per_min > MB_PER_MIN))
