"""The specs of receivers, input streams and rate estimators of plugins, and the classes that those implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast, get_type_hints, runtime_checkable

import attrs
from attrs import field, frozen

from penstock.conf import OPTION_SECTIONS, Settings
from penstock.conf_values import refused, structure_option, type_name, without
from penstock.errors import ConfigurationError, UnknownNameError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import RDD, SparkContext

T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})


@frozen
class Spec:
    """A receiver, stream or estimator that a plugin offers under a name.

    Attributes:
        name: lowercase; of a receiver usually the protocol.
        factory: called as ``factory(options)``, or as ``factory()`` without an options class.
        options: an attrs class with a field for each option; ``None`` for none.
        summary: one line for a list of plugins.
    """

    #: Name of the kind in messages, and the start of the keys that set options: ``<section><name>.<option>``.
    kind: ClassVar[str] = ""
    section: ClassVar[str] = ""

    name: str
    factory: Callable[..., Any]
    options: type | None = None
    summary: str = ""

    @property
    def prefix(self) -> str:
        """The start of the configuration keys that set its options."""
        return f"{self.section}{self.name}."

    def read_options(
        self, option_values: Mapping[str, Any], settings: Settings | None = None, *, way: str = "pass {option}=…"
    ) -> Any:
        """Make an instance of the options class; ``None`` when there is none.

        Args:
            option_values: option → value; text is converted to the field's type.
            settings: the configuration, which sets the options that ``option_values`` does not.
            way: how the caller gives an option, for the message about a missing one; ``{option}`` stands for its name.

        Raises:
            UnknownNameError: an option does not exist; names the nearest.
            ConfigurationError: an option is missing or invalid; says how to set it.
        """
        what = f"{self.kind} {self.name!r}"
        configured = {} if settings is None else settings.with_prefix(self.prefix)
        keys = {name: f"{self.prefix}{name}" for name in configured.keys() - option_values.keys()}
        if self.options is None:
            for name in {**configured, **option_values}:
                raise UnknownNameError("option", name, [], f"{what}{_from_key(keys, name)}")
            return None
        # Only configuration has options of rate estimators; a program names the other kinds in a call with options.
        ways = [] if self.kind == "rate estimator" else [way]
        if settings is not None:
            ways.append(f"set {self.prefix}{{option}}")
        return structure_options(what, self.options, {**configured, **option_values}, keys, " or ".join(ways))


@frozen
class ReceiverSpec(Spec):
    """A receiver that programs choose by name; its factory returns a ``Receiver``."""

    kind = "receiver"
    section = OPTION_SECTIONS["receivers"]


@frozen
class InputStreamSpec(Spec):
    """An input source that the driver pulls from, chosen by name; its factory returns an ``InputSource``."""

    kind = "input stream"
    section = OPTION_SECTIONS["input_streams"]


@frozen
class RateEstimatorSpec(Spec):
    """A rate estimator that configuration chooses by name.

    Its factory is called as ``factory(options, batch_interval_ms)``, without an options class with ``None``.
    """

    kind = "rate estimator"
    section = OPTION_SECTIONS["rate_estimators"]


class ArrowReader(Protocol):
    """Reads what the elements of a partition refer to. Pickled with the task; equal readers must read alike."""

    def batches(self, partitions: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of all elements, in order."""


@frozen
class ArrowInput:
    """The records of a batch as columns: DataFrames read them without making Python objects.

    Attributes:
        references: RDD of what the reader reads, such as names of files: Python objects, from ``sc.parallelize``.
            ``None`` for a batch without records.
        reader: runs in the tasks, once for each partition.
        schema: returns the schema of the record batches; ``None`` when it is not known, as there are no records. Called
            on the driver, when the batch's jobs run.
    """

    references: RDD[Any] | None
    reader: ArrowReader
    schema: Callable[[], pa.Schema | None]


@frozen
class SourceBatch:
    """The input of one batch from an input source.

    Attributes:
        rdd: the records.
        num_records: their number, as far as it is known before they are read.
        metadata: describes them; the key ``Description`` is text for people.
        count: called after the batch's jobs for the actual number; ``None`` when ``num_records`` is exact.
        arrow: the same records as columns; ``None`` when the source has them as Python objects only.
    """

    rdd: RDD[Any]
    num_records: int = 0
    metadata: Mapping[str, Any] = field(factory=dict)
    count: Callable[[], int] | None = None
    arrow: ArrowInput | None = None


@runtime_checkable
class InputSource(Protocol):
    """A source that the driver pulls from, batch by batch. Called on the generator's thread, unless noted."""

    def open(self, sc: SparkContext, batch_interval_ms: int) -> None:
        """Prepare for a program: once, on the program's thread, when the stream is made."""

    def start(self) -> None:
        """Prepare for the first batch."""

    def compute(self, batch_time_ms: int) -> SourceBatch:
        """Make a batch. Called in the order of times, again for the same time only after an error. Must not block."""

    def clean_up(self, before_ms: int) -> None:
        """Drop what belongs to batches older than a time.

        Later batches, failed batches and the states of a recovered run do not read them.
        """

    def stop(self) -> None:
        """Release what ``start`` acquired."""


@runtime_checkable
class RecoverableSource(InputSource, Protocol):
    """A source that a run recovered from a checkpoint can continue."""

    def position(self) -> Mapping[str, Any]:
        """Return the position and the batches not yet cleaned up, as JSON values. Called at each checkpoint.

        May be called from ``open`` on, never while a batch is made. Must not block.
        """

    def restore(self, position: Mapping[str, Any]) -> None:
        """Continue from the position of an earlier run. Called after ``open`` and before ``start``."""

    def compute_again(self, batch_time_ms: int) -> SourceBatch | None:
        """Make a batch of the earlier run again; ``None`` when it was empty."""


@runtime_checkable
class DatedSource(RecoverableSource, Protocol):
    """A source that knows when its data arrived: data of the downtime goes to the batches of its intervals."""

    def compute_late(self, batch_time_ms: int) -> SourceBatch:
        """Make a batch that was due during the downtime, from what had arrived by its time; otherwise as ``compute``.

        May wait for some seconds.
        """


class RateEstimator(ABC):
    """Estimates how many records/s a receiver stream should store, from what its last batch took.

    Derive from it and write ``compute``; every other member is optional. An estimator reads no clock and no random
    source, so that a run can be repeated. It is called by one thread at a time.

    Attributes:
        initial_rate: records/s in force before the first batch; ``None``: no limit.
        state: all that ``compute`` remembers, an attrs instance of values that JSON can hold. It is saved in every
            checkpoint and assigned before the first batch of a recovered run. ``None``: each run starts afresh.
        reason: why ``compute`` answered as it did the last time, for logs and dashboards.
    """

    initial_rate: float | None = None
    state: Any = None
    reason: str = ""

    def begin_with(self, rate: float) -> None:  # noqa: B027  # optional
        """Accept the program's first rate, records/s, before the first batch: in force instead of ``initial_rate``."""

    @abstractmethod
    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """Estimate the rate from a completed batch.

        Args:
            time: when processing ended, ms since the epoch.
            numElements: records of the stream in the batch.
            processingDelay: the stream's share of what the batch took, ms.
            schedulingDelay: from the batch time to the start of processing, ms.

        Returns:
            Records/s, or ``None`` to leave the rate as it is.
        """


@frozen
class Option:
    """One option of a plugin, for display.

    ``type`` describes the accepted values, ``default`` is ``None`` when the option is required, and ``help`` is the
    field's ``metadata["help"]``.
    """

    name: str
    type: str
    default: str | None
    help: str

    @classmethod
    def of(cls, options: Any) -> list[Option]:
        """Describe the fields of an options class; ``None`` has none."""
        if options is None:
            return []
        types = get_type_hints(options, include_extras=True)
        return [_describe(field, types.get(field.name, Any)) for field in attrs.fields(options) if field.init]


def _describe(field: attrs.Attribute[Any], option_type: Any) -> Option:
    if field.default is attrs.NOTHING:
        default = None
    elif not field.repr:
        default = "(hidden)"
    elif isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]  # a class at run time, a function in the stubs
        default = "(created per instance)"
    else:
        default = repr(field.default)
    named = type_name(option_type).replace("`", "")
    return Option(field.alias or field.name, named, default, str(field.metadata.get("help", "")))


def structure_options(
    what: str, options: type[T], option_values: Mapping[str, Any], keys: Mapping[str, str] = _NOTHING, advice: str = ""
) -> T:
    """Make an instance of an options class from values by option; text is converted to the field's type.

    The other arguments are for messages: the options' owner, option → configuration key that set it, and how to give a
    missing option, in which ``{option}`` stands for its name.

    Raises:
        UnknownNameError: an option does not exist; names the nearest.
        ConfigurationError: an option is missing, or its value is invalid.
    """
    fields = {field.alias or field.name: field for field in attrs.fields(cast("type", options)) if field.init}
    for name in option_values:
        if name not in fields:
            raise UnknownNameError("option", name, fields, f"{what}{_from_key(keys, name)}")
    missing = [name for name, field in fields.items() if field.default is attrs.NOTHING and name not in option_values]
    if missing:
        how = f": {advice.format(option=missing[0])}" if advice else ""
        raise ConfigurationError(f"{what} needs the option {missing[0]!r}{how}")

    types, values, refusals = get_type_hints(options, include_extras=True), {}, []
    for name, value in option_values.items():
        try:
            values[name] = structure_option(value, types.get(fields[name].name, Any))
        except Exception as error:  # a converter is a plugin's, and may raise anything
            text = refused(
                keys.get(name, name), value, error, is_quoted=name not in keys, is_hidden=not fields[name].repr
            )
            refusals.append(text)
    if refusals:
        raise ConfigurationError(f"{what}: {'; '.join(refusals)}")
    try:
        return options(**values)
    except Exception as error:
        name, objection = next(_objections(fields, values, keys), ("", error))
        # Some validators of attrs raise with the text, the whole Attribute and more.
        text = str(objection.args[0]) if objection.args else type(objection).__name__
        for hidden in [name] if name else option_values:
            text = text if fields[hidden].repr else without(option_values[hidden], text)
        raise ConfigurationError(f"{what}: {text}") from None


def _objections(
    fields: Mapping[str, attrs.Attribute[Any]], values: Mapping[str, Any], keys: Mapping[str, str]
) -> Iterator[tuple[str, Exception]]:
    """The options whose validators refuse their values, with errors that name the configuration key, if one is set."""
    # Validators may compare with other options.
    subject = SimpleNamespace(**{field.name: values.get(name, field.default) for name, field in fields.items()})
    for name, value in values.items():
        field = fields[name]
        try:
            if field.validator is not None:
                field.validator(subject, field.evolve(name=keys.get(name, name)), value)
        except AttributeError:
            pass  # it needs more of the instance than options
        except Exception as error:
            yield name, error


def _from_key(keys: Mapping[str, str], option: str) -> str:
    """The configuration key that set an option, for messages; empty for an option that the program gave."""
    return f", set by {keys[option]}" if option in keys else ""
