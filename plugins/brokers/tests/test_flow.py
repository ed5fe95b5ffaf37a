"""``is_far_from``: small changes of the rate limit replace no window."""

from __future__ import annotations

import pytest

from penstock_brokers import is_far_from


@pytest.mark.parametrize(
    ("window", "wanted", "is_far"),
    [(100, 100, False), (100, 399, False), (100, 400, True), (100, 26, False), (100, 25, True), (2, 2, False)],
)
def test_a_window_is_replaced_when_it_is_off_by_a_factor(window: int, wanted: int, is_far: bool) -> None:
    assert is_far_from(window, wanted) == is_far
