"""A program with DataFrame streams that is restored from a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import wait_for
from tests.helpers.engine_parts import load_program, save_program
from tests.helpers.frame_programs import Run

from penstock import ConfigurationError, DStream, StreamingContext

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_restored_program_has_its_operators_and_expressions(run: Run, tmp_path: Path, session: SparkSession) -> None:
    from pyspark.sql import functions as F

    out = str(tmp_path / "out")

    def program(ssc: StreamingContext, lines: DStream[Any]) -> None:
        words = lines.toDF().select(F.explode(F.split("value", " ")).alias("word"))
        known = words.join(lambda: session_of(words).createDataFrame([("to", 1)], "word string, known int"), "word")
        counted = known.where(F.col("known") > 0).groupBy("word").agg(F.count("*").alias("n"))
        counted.foreachBatch(lambda df, _batch_id: df.write.mode("append").json(out))
        # Saves and loads within one context; the public way needs a run and its recovery.
        saved = save_program(ssc._program)
        ssc._graph.outputs.clear()
        load_program(saved, ssc._program)

    def session_of(_stream: Any) -> Any:
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    run(program, [[[["to be", "or not to be"]]]], num_batches=1)
    assert run.errors == {}
    assert [tuple(row) for row in session.read.json(out).select("word", "n").collect()] == [("to", 2)]


def test_what_cannot_be_saved_is_named_with_its_operator(
    make_ssc: Callable[..., StreamingContext], session: SparkSession
) -> None:
    from pyspark.sql import functions as F

    static = session.range(3)
    programs: dict[str, Callable[[Any], Any]] = {
        "join": lambda df: df.join(static),
        "withColumn": lambda df: df.withColumn("n", F.udf(len, "int")("value")),
    }
    for operation, use in programs.items():
        ssc = make_ssc()
        use(ssc.queueStream([["a"]]).toDF("value string")).pprint()
        with pytest.raises(ConfigurationError, match=rf"{operation} at test_checkpoints\.py:\d+: .*not serializable"):
            # A checkpoint of the context also names the operator, but needs a start.
            save_program(ssc._program)


@pytest.mark.usefixtures("sparks_plans")
def test_the_program_of_the_page_counts_words(
    sc: SparkContext, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[4]
    program, *_ = re.findall(r"```python\n(.*?)```", (root / "docs" / "dataframes.md").read_text(), re.DOTALL)
    example = (root / "examples" / "dataframes.py").read_text()
    assert program == example
    printed = ""

    def has_counted() -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return "|question|    1|" in printed and "|    2|     18|" in printed

    def feed_and_wait(_ssc: StreamingContext, _timeout: float) -> None:
        (tmp_path / ".new").write_text("to be or not to be\nquestion to\n")
        (tmp_path / ".new").rename(tmp_path / "new")
        wait_for(has_counted, "the words are counted")

    monkeypatch.setattr("sys.argv", ["dataframes.py", str(tmp_path)])
    monkeypatch.setattr(StreamingContext, "awaitTermination", feed_and_wait)
    code = program.replace('SparkContext(appName="words")', "shared").replace("ssc.stop()", "ssc.stop(False)")
    exec(compile(code, "dataframes.py", "exec"), {"shared": sc})
