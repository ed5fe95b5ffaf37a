"""``unite``: combines the partitions of several inputs into one."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence

from penstock.spi import BlocksInput


def unite(inputs: Sequence[BlocksInput], min_bytes: int) -> BlocksInput:
    """Unite the partitions of one or more inputs.

    Consecutive small inputs with the same hosts share a partition, so that a window of many small batches has
    fewer tasks.

    Args:
        inputs: the inputs in the order of their records; the same function reads all of them.
        min_bytes: shared partitions are smaller than twice this size.
    """
    shared: list[list[BlocksInput]] = []
    num_bytes = 0
    for blocks in inputs:
        num_bytes += blocks.num_bytes
        fits = len(blocks.hosts) == 1 and shared and shared[-1][0].hosts == blocks.hosts
        if fits and num_bytes < 2 * min_bytes:
            shared[-1].append(blocks)
        else:
            shared.append([blocks])
            num_bytes = blocks.num_bytes
    references = tuple(itertools.chain.from_iterable(map(_references, shared)))
    hosts = tuple(itertools.chain.from_iterable(group[0].hosts for group in shared))
    return BlocksInput(references, hosts, sum(blocks.num_bytes for blocks in inputs), inputs[0].read)


def _references(inputs: Sequence[BlocksInput]) -> tuple[bytes, ...]:
    """The references of one input, or of several inputs that share a partition."""
    if len(inputs) == 1:
        return inputs[0].references
    blocks = itertools.chain.from_iterable(pickle.loads(shared.references[0]) for shared in inputs)
    return (pickle.dumps(tuple(blocks), pickle.HIGHEST_PROTOCOL),)
