"""What all tests of the receivers need."""

from __future__ import annotations

import pyarrow as pa
import pytest


@pytest.fixture(scope="session", autouse=True)
def _imports() -> None:
    """Do what takes long for the first array of a process: Arrow imports pandas."""
    pa.array([b""])
