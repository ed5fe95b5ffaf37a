"""The receiver ``ticker`` passes the conformance checks."""

from penstock_testing import ReceiverSuite


class TestTicker(ReceiverSuite):
    # It needs no source, so there is no feeder: what needs chosen records is not applicable, and the grade is "loads".
    name = "ticker"
    options = {"per_second": 1000.0}  # noqa: RUF012
