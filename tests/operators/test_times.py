"""The times that functions get: naive and local as PySpark's, or of a zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import StreamingContext
from penstock.errors import ConfigurationError
from penstock.spi import node_of

pytestmark = pytest.mark.spark


def test_times_are_naive_unless_a_zone_is_set(make_ssc: Callable[..., StreamingContext]) -> None:
    naive = node_of(make_ssc().queueStream([[1]])).datetime_of(1_500)
    aware = node_of(make_ssc(conf={"spark.penstock.timeZone": "UTC"}).queueStream([[1]])).datetime_of(1_500)
    assert naive == datetime.fromtimestamp(1.5)
    assert naive.tzinfo is None
    assert aware == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert naive.timestamp() == aware.timestamp() == 1.5


def test_a_zone_that_does_not_exist_is_refused(make_ssc: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"spark.penstock.timeZone=Atlantis is not the name of a time zone"):
        make_ssc(conf={"spark.penstock.timeZone": "Atlantis"})
