"""The programs' input, which depends only on the seed, and the answers that plain Python computes from it."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

#: The text that grep searches for.
PATTERN = "qu"
#: Number of words that top-k returns.
TOP = 10
#: The first letter of a word that says when its line was sent, in microseconds of the epoch.
STAMP = "@"

_VOCABULARY = 2000
_MAX_LINES, _MAX_BYTES = 10_000, 2_000_000


class Lines:
    """Lines of words from a vocabulary of 2,000, repeated as often as needed.

    Args:
        seed: of the words and their order.
        size: bytes of a line, about.
    """

    def __init__(self, seed: int, size: int = 100) -> None:
        rng = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        vocabulary = ["".join(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(_VOCABULARY)]
        self._texts: list[str] = []
        for _ in range(min(_MAX_LINES, _MAX_BYTES // size)):
            words = [rng.choice(vocabulary)]
            length = len(words[0])
            while length < size - 8:
                words.append(rng.choice(vocabulary))
                length += 1 + len(words[-1])
            self._texts.append(" ".join(words))

    def encoded(self, first: int, last: int) -> bytes:
        """The lines from ``first`` (inclusive) to ``last`` (exclusive), with line endings."""
        period = len(self._texts)
        return "".join(f"{self._texts[number % period]}\n" for number in range(first, last)).encode()

    @property
    def period(self) -> int:
        """Number of lines after which they repeat."""
        return len(self._texts)

    def words(self, first: int, last: int) -> Counter[str]:
        """The word counts of the lines from ``first`` (inclusive) to ``last`` (exclusive)."""
        return self._repeated(lambda text: text.split(" "), first, last)

    def matches(self, last: int) -> int:
        """How many of the first ``last`` lines contain the pattern."""
        return self._repeated(lambda text: [PATTERN] if PATTERN in text else [], 0, last)[PATTERN]

    def _repeated(self, parts: Any, first: int, last: int) -> Counter[str]:
        whole, rest = divmod(last - first, self.period)
        counts: Counter[str] = Counter()
        if whole:
            counts.update(part for text in self._texts for part in parts(text))
            counts = Counter({part: count * whole for part, count in counts.items()})
        for number in range(last - rest, last):
            counts.update(parts(self._texts[number % self.period]))
        return counts


def digest(counts: Mapping[str, int]) -> dict[str, Any]:
    """A short digest of word counts, which is equal only for equal counts."""
    text = json.dumps(sorted(counts.items()))
    return {
        "words": sum(counts.values()),
        "different": len(counts),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


def top(counts: Mapping[str, int]) -> list[list[Any]]:
    """The most frequent words; among equals, those that come first in the alphabet."""
    return [[word, count] for word, count in islice(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])), TOP)]


def keyed_batches(seed: int, batches: int, records: int, keys: int) -> list[list[tuple[int, int]]]:
    """Batches of pairs of a key below ``keys`` and the value 1."""
    rng = random.Random(seed)
    return [[(rng.randrange(keys), 1) for _ in range(records)] for _ in range(batches)]


def window_sums(batches: list[list[tuple[int, int]]], slides: int) -> list[int]:
    """The sum of the values in the window that ends with each batch."""
    sums = [sum(value for _, value in batch) for batch in batches]
    return [sum(sums[max(0, number + 1 - slides) : number + 1]) for number in range(len(sums))]


def largest_totals(batches: Iterable[list[tuple[int, int]]]) -> list[int]:
    """The largest total that a key has after each batch."""
    totals: Counter[int] = Counter()
    largest, maxima = 0, []
    for batch in batches:
        for key, value in batch:
            totals[key] += value
            largest = max(largest, totals[key])
        maxima.append(largest)
    return maxima
