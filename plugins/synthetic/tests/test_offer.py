"""What the plugin offers, and how options are read, refused and described."""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock_synthetic
from penstock.errors import ConfigurationError, UnknownNameError
from penstock.plugins.discovery import Plugins
from penstock.plugins.specs import options_of, read_options
from penstock_synthetic import SyntheticOptions

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
(SPEC,) = penstock_synthetic.receivers()


def test_the_entry_point_leads_to_it() -> None:
    own = [each for each in importlib.metadata.entry_points(group="penstock") if each.name == "synthetic"]
    assert Plugins(strict=True, entry_points=own).spec("receivers", "synthetic") == SPEC


def test_options_are_read_from_text() -> None:
    given = {"rate": "2.5", "shape": "pairs", "seed": "8", "total": "9"}
    assert read_options("receiver", SPEC, given) == SyntheticOptions(2.5, "pairs", 8, 9)
    assert read_options("receiver", SPEC, {}) == SyntheticOptions(1000.0, "lines", 7, 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("rate", -1.0),
        ("rate", math.nan),
        ("rate", math.inf),
        ("shape", "circles"),
        ("seed", -1),
        ("total", -1),
    ],
)
def test_values_that_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        SyntheticOptions(**{option: value})
    with pytest.raises(ConfigurationError, match="synthetic"):
        read_options("receiver", SPEC, {option: str(value)})


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'rate'\?"):
        read_options("receiver", SPEC, {"rates": 1})


def test_every_option_is_described_here_and_in_the_readme() -> None:
    for option in options_of(SPEC):
        assert option.help
        assert f"| `{option.name}` | `{option.default}` | {option.help} |" in README


def test_importing_it_starts_nothing() -> None:
    code = """
import sys, threading
import penstock_synthetic
assert threading.active_count() == 1, threading.enumerate()
assert "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
