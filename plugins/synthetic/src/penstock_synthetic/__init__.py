"""A receiver that generates records from a seed, with a chosen rate and shape."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import ReceiverSpec, hookimpl
from penstock_synthetic.synthetic_receiver import SyntheticOptions, SyntheticReceiver

__all__ = ["SyntheticOptions", "SyntheticReceiver", "receivers"]


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receiver ``synthetic``."""
    return (ReceiverSpec("synthetic", SyntheticReceiver, SyntheticOptions, "generated records, equal for equal seeds"),)
