"""How a batch's processing time is attributed to the streams that share it."""

import pytest

from penstock.plugins.listener_context import attributed_ms


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((50, 50), 1000),
        ((10, 90), 200),
        ((90, 10), 1000),
        ((50,), 1000),
        ((50, 0), 1000),
        ((10, 10, 80), 300),
        ((10, 30, 0), 500),
        ((0, 0), 1000),
        ((0, 90), 1),
    ],
    ids=str,
)
def test_first_stream_is_charged_in_proportion_to_its_records(counts: tuple[int, ...], expected: int) -> None:
    assert attributed_ms(1000, counts[0], counts) == expected


def test_batch_that_took_no_time_is_charged_as_such() -> None:
    assert attributed_ms(0, 10, (10, 90)) == 0
