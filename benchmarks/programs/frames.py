"""The works on lines, on DataFrames: the same code for Penstock's DataFrameStreams and for Structured Streaming."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions

from benchmarks.data import PATTERN, TOP
from benchmarks.programs.answers import Answers


def transformed(frames: Any, work: str) -> Any:
    """Apply the work to a DataFrame with the column ``value``, or to a stream of such DataFrames."""
    if work == "grep":
        return frames.where(f"contains(value, '{PATTERN}')")
    if work in ("wordcount", "topk"):
        words = frames.selectExpr("explode(split(value, ' ')) AS word")
        return words.groupBy("word").agg(functions.count("*").alias("n"))
    return frames


def collect(frame: Any, work: str, answers: Answers) -> None:
    """Run the job of a batch, whose DataFrame is transformed."""
    if work == "receive":
        frame.write.format("noop").mode("overwrite").save()
    elif work == "topk":
        ordered = frame.orderBy(functions.desc("n"), "word").limit(TOP)
        answers.add_top((row["word"], row["n"]) for row in ordered.collect())
    elif work == "wordcount":
        answers.add_words((row["word"], row["n"]) for row in frame.collect())
    else:
        answers.add_number(frame.count())
