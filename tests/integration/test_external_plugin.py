"""A receiver plugin from a distribution of its own runs on a separate executor, beside a zoo of bad plugins."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.badplugins.zoo import FAULTY, LATE, Zoo
from tests.helpers.shared_jvm import PYSPARKS_DAEMON, SharedJvm

pytestmark = [pytest.mark.spark, pytest.mark.programs]

ROOT = Path(__file__).parents[2]

PROGRAM = """
import shutil
import sys
from pathlib import Path
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from penstock import StreamingContext

conf = SparkConf().setMaster(sys.argv[1]).setAppName("external").set("spark.ui.enabled", "false")
conf.set("spark.executorEnv.PYTHONPATH", sys.argv[2]).set("spark.python.unix.domain.socket.enabled", "true")
ssc = StreamingContext(SparkContext(conf=conf), 0.5)
seen = []
numbers = ssc.receiverStream("ticker", per_second=200, total=100)
numbers.foreachRDD(lambda rdd: seen.extend(rdd.collect()))
ssc.start()
for _ in range(300):
    ssc.awaitTerminationOrTimeout(0.5)
    if len(seen) >= 100:
        break
application = ssc.sparkContext.applicationId
ssc.stop(stopGracefully=True)
# The workers of a local-cluster keep the output of executors there.
work = Path(_find_spark_home(), "work", application)
for output in work.glob("*/stderr"):
    Path(sys.argv[3]).open("a").write(output.read_text(errors="replace"))
shutil.rmtree(work, ignore_errors=True)
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
    Zoo(folder / "site").add_all()
    return folder / "site"


def test_a_plugin_runs_on_a_separate_executor_beside_every_bad_plugin(
    site: Path, tmp_path: Path, shared_jvm: SharedJvm
) -> None:
    shared_jvm.prepare(PYSPARKS_DAEMON)
    program, executors = tmp_path / "program.py", tmp_path / "executors.log"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), "local-cluster[1,2,1024]", str(site), str(executors)],
        env={**shared_jvm.environment, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["seen all"], done.stdout + done.stderr[-3000:]
    for log in (done.stderr, executors.read_text()):
        unnamed = [name for name in FAULTY if f"plugin='{name} (bad-{name} 2.5)'" not in log]
        assert unnamed == []
        assert "rival (rival 2.5) and zzz (good-zzz 1.0)" in log
    listeners = [name for name in LATE if name.startswith("listener")]
    assert [name for name in listeners if f"{name} (bad-{name} 2.5)" not in done.stderr] == []
