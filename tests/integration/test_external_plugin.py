"""A receiver plugin from a distribution of its own is found and runs on separate executors."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.launch.java import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from pyspark import SparkConf, SparkContext
from penstock import StreamingContext

conf = SparkConf().setMaster(sys.argv[1]).setAppName("external").set("spark.ui.enabled", "false")
conf.set("spark.executorEnv.PYTHONPATH", sys.argv[2]).set("spark.python.unix.domain.socket.enabled", "true")
ssc = StreamingContext(SparkContext(conf=conf), 0.5)
seen = []
numbers = ssc.receiverStream("ticker", per_second=200, total=100)
numbers.foreachRDD(lambda rdd: seen.extend(rdd.collect()))
ssc.start()
for _ in range(120):
    ssc.awaitTerminationOrTimeout(0.5)
    if len(seen) >= 100:
        break
ssc.stop(stopGracefully=True)
print("seen all" if seen == list(range(100)) else seen)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example plugin, built as a wheel and unpacked as an installer would."""
    folder = tmp_path_factory.mktemp("plugin")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT / "examples" / "plugin",
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    add_broken_plugin(folder / "site")
    return folder / "site"


def add_broken_plugin(site: Path) -> None:
    """Install a second plugin, whose module cannot be imported, on the driver and on executors."""
    (site / "penstock_broken.py").write_text('raise ImportError("a library is missing")\n')
    metadata = site / "penstock_broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-broken\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[penstock]\nbroken = penstock_broken\n")


def test_a_plugin_runs_on_separate_executors_beside_one_that_cannot_be_imported(site: Path, tmp_path: Path) -> None:
    ensure_java()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), "local-cluster[2,1,1024]", str(site)],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["seen all"], done.stdout + done.stderr[-3000:]
    assert "penstock-broken" in done.stdout + done.stderr
