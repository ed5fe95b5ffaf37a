"""docs/tutorial-receiver.md, step by step. plugins/cli/tests/test_new.py runs the tests of the new plugin (step 1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.tutorials import Walk, blocks_of

_BLOCKS = blocks_of("tutorial-receiver.md")


def test_tutorial_leads_to_a_proven_receiver(tmp_path: Path) -> None:
    # All checks run in step 3, with pytest; those that the command runs show that it finds the suite.
    command = "penstock plugins check inbox"
    walk = Walk(
        tmp_path, "penstock-inbox", {"penstock run app.py": "", command: f"{command} --only PK-14 --only RC-31"}
    )
    walk.follow([(language, text.replace("\npytest\n", "\n")) for language, text in _BLOCKS[:1]])
    walk.follow(_BLOCKS[2:])
    assert "2 run, 0 not applicable, 0 excused, 0 failed; 2 selected" in walk.output[-2], walk.output[-2]
    (wheel,) = (walk.plugin / "dist").glob("*.whl")
    assert wheel.name == "penstock_inbox-0.1.0-py3-none-any.whl"


@pytest.mark.spark
@pytest.mark.programs
def test_tutorial_ends_with_a_stream(tmp_path: Path) -> None:
    walk = Walk(tmp_path, "penstock-inbox", {})
    blocks = dict(_written())
    walk.run("penstock plugins new receiver inbox")
    walk.run("cd penstock-inbox")
    for name in ("penstock_inbox.py", "app.py"):
        walk.write(blocks[name])
    walk.run("penstock run app.py")
    assert "('be', 2000)" in walk.output[-1], walk.output[-1]


def _written() -> list[tuple[str, str]]:
    """The first block that writes each file."""
    texts = [text for language, text in _BLOCKS if language == "python"]
    return [(text.partition("\n")[0].removeprefix("# "), text) for text in reversed(texts)]
