"""The receiver of this distribution passes the conformance checks."""

from __future__ import annotations

import pytest

from penstock_rabbitmq.conformance import RabbitSuite


@pytest.mark.usefixtures("broker")
class TestRabbit(RabbitSuite):
    pass
