"""The share of a batch's processing time that is attributed to one of its streams."""

from collections.abc import Collection


def attributed_ms(processing_ms: int, records: int, counts: Collection[int]) -> int:
    """Return a stream's share of a batch's processing time, as if it had the whole interval to itself.

    The share is proportional to the stream's records, scaled by the number of streams that have any: an equal part of
    the records is charged the whole time, and so is a larger one. Rates therefore converge to equal parts of the
    capacity, and what one stream leaves unused goes to the others.

    Args:
        processing_ms: from the start of the batch's first job to the end of its last.
        records: the stream's records in the batch.
        counts: the records of each rate-controlled stream in the batch, this one included.
    """
    if not any(counts):
        return processing_ms
    part = sum(count > 0 for count in counts) * records / sum(counts)
    return max(round(processing_ms * min(1.0, part)), min(processing_ms, 1))
