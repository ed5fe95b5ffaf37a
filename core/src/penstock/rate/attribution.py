"""How much of a batch's processing time is attributed to one of the streams that share it."""

from __future__ import annotations


def attributed_ms(processing_ms: int, records: int, all_records: int, streams: int) -> int:
    """Return a stream's share of a batch's processing time, as if it had the whole interval to itself.

    The share is proportional to the stream's records, scaled by the number of streams that have any: an equal part of
    the records is charged the whole time, and so is a larger one. Rates therefore converge to equal parts of the
    capacity, and what one stream leaves unused goes to the others.

    Args:
        processing_ms: from the start of the batch's first job to the end of its last.
        records: the stream's records in the batch.
        all_records: records of all rate-controlled streams in the batch.
        streams: how many of them have records in the batch.
    """
    if all_records <= 0:
        return processing_ms
    return max(round(processing_ms * min(1.0, streams * records / all_records)), min(processing_ms, 1))
