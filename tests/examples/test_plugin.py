"""The example plugins, each installed as its own distribution, pass their tests; the rate estimator runs on Spark."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.helpers import do_nothing
from tests.helpers.forked import run_module

if TYPE_CHECKING:
    from penstock import BatchCompleted, StreamingContext

EXAMPLES = Path(__file__).parents[2] / "examples"


def install(plugin: Path, site: Path) -> list[str]:
    """Write the metadata of a plugin as pip does; returns the search path with the plugin."""
    project = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    header = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"{header}\n{(plugin / project['readme']).read_text()}")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in each.items()) for group, each in groups]
    (info / "entry_points.txt").write_text("".join(lines))
    return [str(plugin / "src"), str(site)]


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        # It makes its records itself, so that nothing is fed to it.
        ("plugin", "0 failed; 77 in all; grade: loads (nothing that needs data was tested"),
        ("estimator", "0 failed; 46 in all; grade: hardened"),
    ],
)
def test_example_plugin_passes_its_tests(name: str, summary: str, tmp_path: Path) -> None:
    path = os.pathsep.join(install(EXAMPLES / name, tmp_path))
    ran = run_module(
        "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=EXAMPLES / name, env={**os.environ, "PYTHONPATH": path}
    )
    assert ran.returncode == 0, ran.stdout
    assert summary in ran.stdout


class Limits:
    """The rate limits with which batches were generated."""

    def __init__(self) -> None:
        self.seen: list[float | None] = []

    def onBatchCompleted(self, batchCompleted: BatchCompleted) -> None:
        self.seen += [each.rate_limit for each in batchCompleted.batchInfo.streamIdToInputInfo.values()]


@pytest.mark.spark
def test_example_estimator_steers_a_receiver(
    make_ssc: Callable[..., StreamingContext],
    wait_for: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for folder in install(EXAMPLES / "estimator", tmp_path):
        monkeypatch.syspath_prepend(folder)
    chosen = {"enabled": "true", "rateEstimator": "stepwise", "stepwise.up": "0.5"}
    ssc = make_ssc(conf={f"spark.streaming.backpressure.{key}": value for key, value in chosen.items()})
    limits = Limits()
    ssc.addStreamingListener(limits)
    ssc.receiverStream("synthetic", rate=0).foreachRDD(do_nothing)
    ssc.start()
    wait_for(lambda: len(set(limits.seen)) > 1, "another rate")
    first, second = list(dict.fromkeys(limits.seen))[:2]
    # One step up; a step down on a machine so busy that the first batch is late.
    assert (first, second) in {(100.0, 150.0), (100.0, 80.0)}
