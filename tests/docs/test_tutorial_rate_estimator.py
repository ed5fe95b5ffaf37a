"""docs/tutorial-rate-estimator.md, step by step.

plugins/cli/tests/test_new.py runs the tests of the new plugin, in step 1. Two of the finished one run here.
"""

from __future__ import annotations

from pathlib import Path

from tests.helpers.tutorials import Walk, blocks_of

_BLOCKS = blocks_of("tutorial-rate-estimator.md")


def test_tutorial_leads_to_a_proven_estimator_and_its_curve(tmp_path: Path) -> None:
    walk = Walk(tmp_path, "penstock-cautious", {"pytest": 'pytest -k "PK_15 or RE_08"'})
    (start, *_), (_, *rest, (_, configuration)) = _BLOCKS[:1], _BLOCKS[1:]
    walk.follow([("sh", start[1].replace("\npytest\n", "\n")), *rest])
    assert (walk.plugin / "cautious.svg").read_text(encoding="utf-8").startswith("<svg")
    for line in configuration.splitlines():
        key, _, value = line.partition("=")
        assert key.startswith("spark.streaming.backpressure."), key
        assert value
