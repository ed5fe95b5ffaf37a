"""``LiveSubject`` and ``LiveRun`` run a real program on Spark for the live checks, each run in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from pyspark import cloudpickle

from penstock.spi import Plugins
from penstock_testing.check import CheckFailure, NotApplicable, fail
from penstock_testing.feeder import Feeder
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.subject import HOOKS, Subject

if TYPE_CHECKING:
    from penstock_testing.suites import ConformanceSuite

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    # Two blocks a batch: each is a task, and two receivers leave two of four slots.
    "spark.streaming.blockInterval": "250ms",
    # The second compiler costs more processor time than it saves in a program this short.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
# The deadline of one step of a program, its start included. Only a failure reaches it.
_DEADLINE_S = 150.0
# The deadline of a graceful stop, before that of the step: the default of 10 s loses records on a busy machine.
_STOP_S = 120.0
# Two failing plugins, installed beside the tested one: one raises at import, one at every completed batch.
_NEIGHBOURS = {
    "broken": 'raise ImportError("a library is missing")\n',
    "raising": """
import penstock

class Raises:
    def onBatchCompleted(self, batchCompleted):
        raise RuntimeError("a listener that always fails")

@penstock.hookimpl
def listeners(context):
    return [Raises()]
""",
}


@attrs.frozen
class LiveSpec:
    """The configuration of ``live_program``. Here, so that the other checks do not import what runs on Spark.

    Attributes:
        folder: holds ``batches.jsonl``, the output, and ``numbers``, the count of the kit's own receiver. The program
            stops when the file ``stop`` appears in it.
        conf: configuration by full key.
        receiver: name of the receiver plugin; empty for ``pickled``.
        pickled: file that holds a pickled receiver; empty for the kit's own ``CountingReceiver``.
        beside: whether the kit's own receiver runs as a second stream.
        checkpoint: the checkpoint directory; empty for none.
        interval_s: the batch interval.
        assigned_columns: columns of the tested stream's rows that the source assigns, and that are not counted.
    """

    folder: str
    conf: Mapping[str, str] = attrs.field(factory=dict)
    receiver: str = ""
    pickled: str = ""
    beside: bool = False
    checkpoint: str = ""
    interval_s: float = 0.5
    assigned_columns: tuple[str, ...] = ()


class LiveRun:
    """One run of the live program.

    Args:
        subject: closes the run when the check ends.
        folder: holds the program's output; a second run in the same folder continues the first.
    """

    def __init__(self, subject: Subject, folder: Path) -> None:
        self._subject = subject
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        subject.on_close(self.kill)

    def start(self, spec: LiveSpec, site: Path | None = None) -> None:
        """Start the program.

        Args:
            spec: configures the program.
            site: a folder with further installed plugins, for the driver and its workers.
        """
        (self.folder / "stop").unlink(missing_ok=True)
        own = [str(Path(entry).absolute()) for entry in sys.path]
        path = os.pathsep.join([*([str(site)] if site else []), *own])
        own_conf = {
            "spark.executorEnv.PYTHONPATH": path,
            "spark.streaming.gracefulStopTimeout": f"{round(self._subject.deadline_s(_STOP_S) * 1000)}ms",
        }
        conf = {**_QUIET, **own_conf, **self._subject.suite.conf, **spec.conf}
        spec_file = self.folder / "spec.json"
        spec_file.write_text(json.dumps(attrs.asdict(attrs.evolve(spec, conf=conf))))
        with (self.folder / "stderr").open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock_testing.live_program", str(spec_file)],
                env={**os.environ, "PYTHONPATH": path},
                # Ends with this process, and the program with it.
                stdin=subprocess.PIPE,
                stdout=stderr,
                stderr=stderr,
                cwd=self.folder,
                start_new_session=True,
            )

    def batches(self, stream: str = "tested") -> list[dict[str, Any]]:
        """The batches of a stream that the program has output so far."""
        path = self.folder / "batches.jsonl"
        text = path.read_text() if path.exists() else ""
        # The last line may be unfinished.
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [line for line in lines if line["stream"] == stream]

    def counts(self, stream: str = "tested") -> Counter[str]:
        """The number of times that each record, as its repr, was output so far."""
        total: Counter[str] = Counter()
        for batch in self.batches(stream):
            total.update(batch["counts"])
        return total

    def until_counts(self, expected: Counter[str], what: str) -> None:
        """Wait until at least these records are output.

        Args:
            expected: the records, as reprs.
            what: names them in the failure.
        """
        self.until(lambda: expected <= self.counts(), lambda: self._missing(expected, what))

    def until(self, condition: Any, seen: Any) -> None:
        """Wait for a condition while the program runs; see ``Subject.until``."""

        def ended_or_true() -> bool:
            return bool(condition()) or self._process is None or self._process.poll() is not None

        self._subject.until(ended_or_true, seen, timeout_s=_DEADLINE_S)
        if not condition():
            fail(f"{seen() if callable(seen) else seen}; the program has ended, its last output is:\n{self.tail()}")

    def stop(self) -> None:
        """Stop the program gracefully."""
        assert self._process is not None
        (self.folder / "stop").touch()
        try:
            status = self._process.wait(self._subject.deadline_s(_DEADLINE_S))
        except subprocess.TimeoutExpired:
            fail(
                f"the program did not end within {self._subject.deadline_s(_DEADLINE_S):g} s of a graceful stop; its "
                f"last output is:\n{self.tail()}"
            )
        if status:
            fail(f"the program ended with exit status {status}; its last output is:\n{self.tail()}")

    def numbers(self) -> int | None:
        """The number of records that the kit's own receiver has stored; ``None`` if it did not end."""
        path = self.folder / "numbers"
        return int(path.read_text()) if path.exists() else None

    def kill(self) -> None:
        """Kill the program with its JVM and its workers."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def tail(self) -> str:
        """The last 15 lines that the program has printed."""
        return "\n".join((self.folder / "stderr").read_text(errors="replace").splitlines()[-15:])

    def _missing(self, expected: Counter[str], what: str) -> str:
        missing = expected - self.counts()
        return f"the output lacks {missing.total()} of {expected.total()} records {what}, such as {list(missing)[:3]}"


@attrs.define
class LiveResult:
    """The input and output of a finished run. Several checks share it.

    Attributes:
        first: records fed while the program ran, and output before the stop.
        second: records fed just before the stop.
        tested: all output of the tested stream.
        beside: all output of the kit's own stream.
        numbers: the number of records that the kit's own receiver has stored; ``None`` if there is none, or it ran on.
    """

    first: Counter[str]
    second: Counter[str]
    tested: Counter[str]
    beside: Counter[str]
    numbers: int | None


# The results of the runs in this process; for a failed run its error.
_finished: dict[Any, LiveResult | CheckFailure] = {}


class LiveSubject(ReceiverSubject):
    """The plugin under test in programs on Spark. Finished runs are shared by the checks of one subject."""

    def needs_plugin(self) -> None:
        """Refuse a subject that another process cannot load."""
        if not self.suite.name and self.suite.kind != "receiver":
            raise NotApplicable("live checks need an installed plugin: set name")

    def feeder(self) -> Feeder:
        feeder = super().feeder()
        if feeder.in_process:
            raise NotApplicable(f"the source of {type(feeder).__name__} is in this process, where no worker reaches it")
        return feeder

    def run_to_the_end(self, *, with_neighbours: bool) -> LiveResult:
        """Run the program, feed it and stop it gracefully, or repeat the outcome of an earlier equal run.

        Args:
            with_neighbours: choose the plugin by configuration alone, and add a second stream and two failing plugins.
        """
        self.needs_plugin()
        key = (with_neighbours, *_identity(self.suite))
        if key not in _finished:
            try:
                _finished[key] = self._run(with_neighbours=with_neighbours)
            except CheckFailure as failure:
                _finished[key] = failure
        outcome = _finished[key]
        if isinstance(outcome, CheckFailure):
            raise outcome
        return outcome

    def _run(self, *, with_neighbours: bool) -> LiveResult:
        folder = Path(tempfile.mkdtemp(prefix="live", dir=self.folder))
        run = LiveRun(self, folder)
        feeder = self.feeder() if self.suite.kind == "receiver" else None
        spec = self.live_spec(folder, feeder, by_name=with_neighbours)
        site = self._site(folder) if with_neighbours else None
        run.start(attrs.evolve(spec, beside=with_neighbours and feeder is not None), site)
        if feeder is None:
            run.until(lambda: run.counts().total() >= 100, "the program's output has fewer than 100 records")
            run.stop()
            if (count := run.numbers()) is None:
                fail(f"the program's receiver did not end; the program's last output is:\n{run.tail()}")
            return LiveResult(Counter(map(repr, range(count))), Counter(), run.counts(), Counter(), count)
        if with_neighbours:
            # A defect of the tested receiver shows in the second stream only once that runs.
            run.until(lambda: run.counts("beside"), "the output has no record of the second stream")
        records = feeder.sample(self.rng, 400)
        first, second = records[:200], records[200:]
        feeder.put(first)
        run.until_counts(Counter(map(repr, first)), "fed while the program ran")
        if not with_neighbours:
            feeder.put(second)
            try:
                run.until(
                    lambda: feeder.taken() >= len(records),
                    lambda: f"the receiver has taken {feeder.taken()} of {len(records)} records fed",
                )
            except NotApplicable:
                run.until_counts(Counter(map(repr, records)), "fed before the stop")
        run.stop()
        fed_last = Counter(map(repr, [] if with_neighbours else second))
        return LiveResult(Counter(map(repr, first)), fed_last, run.counts(), run.counts("beside"), run.numbers())

    def live_spec(self, folder: Path, feeder: Feeder | None, *, by_name: bool = False) -> LiveSpec:
        spec = self._spec_of_program(folder, feeder, by_name=by_name)
        return spec if feeder is None else attrs.evolve(spec, assigned_columns=feeder.assigned_columns)

    def _spec_of_program(self, folder: Path, feeder: Feeder | None, *, by_name: bool) -> LiveSpec:
        subject = self.suite
        options = {**subject.options, **(feeder.options() if feeder is not None else {})}
        if subject.kind not in {"receiver", "rate-estimator"}:
            return LiveSpec(str(folder))
        if subject.kind == "receiver" and not (by_name and subject.name and not self.functions()):
            pickled = folder / "receiver.pickle"
            pickled.write_bytes(_pickled(self.make(feeder)))
            return LiveSpec(str(folder), pickled=str(pickled))
        section = Plugins.KINDS[HOOKS[subject.kind]].section
        conf = {f"{section}{subject.name}.{option}": str(value) for option, value in options.items()}
        if subject.kind == "receiver":
            return LiveSpec(str(folder), conf, receiver=subject.name)
        backpressure = {"enabled": "true", "rateEstimator": subject.name}
        return LiveSpec(str(folder), conf | {f"spark.streaming.backpressure.{k}": v for k, v in backpressure.items()})

    def functions(self) -> list[str]:
        """Names of the suite's options that are functions: no configuration can hold them."""
        return [name for name, value in self.suite.options.items() if callable(value)]

    @staticmethod
    def _site(folder: Path) -> Path:
        """Install the failing neighbours into a folder."""
        site = folder / "site"
        for name, source in _NEIGHBOURS.items():
            metadata = site / f"penstock_kit_{name}-1.0.dist-info"
            metadata.mkdir(parents=True)
            (site / f"penstock_kit_{name}.py").write_text(source)
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: penstock-kit-{name}\nVersion: 1.0\n")
            (metadata / "entry_points.txt").write_text(f"[penstock]\nkit-{name} = penstock_kit_{name}\n")
        return site


def _identity(suite: ConformanceSuite) -> tuple[Any, ...]:
    """A key of the subject. pytest makes a new instance of the suite for each check."""
    functions = [getattr(function, "__func__", function) for function in (suite.make, suite.feeder)]
    options: Mapping[str, Any] = suite.options
    return (suite.kind, suite.name, *functions, repr(sorted(options.items())), suite.seed)


def _pickled(receiver: Any) -> bytes:
    """Pickle a receiver for another process; by value if that process cannot import its module."""
    module = sys.modules[type(receiver).__module__]
    if PathFinder.find_spec(module.__name__.partition(".")[0]) is not None:
        return bytes(cloudpickle.dumps(receiver))
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(receiver))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
