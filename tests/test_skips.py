"""With ``PENSTOCK_TEST_SKIPS=refuse`` a skip is an error unless its reason is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.skips import ALLOWED

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.mark.skipif(True, reason="no tool here")
def test_mark(): pass

def test_call(): pytest.skip("no tool here")

@pytest.fixture
def library(): pytest.importorskip("no_such_library")

def test_fixture(library): pass

@pytest.mark.skip(reason={allowed!r})
def test_allowed(): pass

@pytest.mark.xfail
def test_expected_failure(): assert False

def test_passes(): pass
"""
WHOLE_FILE = "import pytest\npytest.importorskip('no_such_library')\n"


def summary(folder: Path, source: str, **variables: str) -> str:
    """The last line of a pytest run of one file."""
    (folder / "test_skipping.py").write_text(source)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.helpers.skips", "--rootdir", str(folder), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout.splitlines()[-1].rpartition(" in ")[0]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("", "1 passed, 4 skipped, 1 xfailed"), ("refuse", "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors")],
)
def test_skip_is_refused_unless_its_reason_is_allowed(tmp_path: Path, setting: str, expected: str) -> None:
    source = TESTS.format(allowed=f"{list(ALLOWED)[-1]}: as here")
    assert summary(tmp_path, source, PENSTOCK_TEST_SKIPS=setting) == expected


@pytest.mark.parametrize(("setting", "expected"), [("", "1 skipped"), ("refuse", "1 error")])
def test_skip_of_a_whole_file_is_refused(tmp_path: Path, setting: str, expected: str) -> None:
    assert summary(tmp_path, WHOLE_FILE, PENSTOCK_TEST_SKIPS=setting) == expected


def test_allowed_reasons_are_those_of_tests() -> None:
    paths = [path for folder in ("tests", "plugins") for path in (ROOT / folder).rglob("*.py")]
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.name != "skips.py")
    written = {reason.replace("could not import '", 'importorskip("').rstrip("'/") for reason in ALLOWED}
    assert sorted(reason for reason in written if reason not in source) == []
