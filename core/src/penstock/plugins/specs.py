"""What a plugin offers: a receiver, a pulled input stream, a rate estimator; and the estimator's contract.

Owns the three specs and the reading of options. Never creates what a spec describes before it is asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, MutableSet, Sequence, Set
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, get_args, get_origin, get_type_hints, runtime_checkable

import attrs
import cattrs
from attrs import field, frozen

from penstock.conf_values import converter
from penstock.errors import ConfigurationError, UnknownNameError

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext


@frozen
class ReceiverSpec:
    """A receiver that programs can name.

    Attributes:
        name: lowercase, the noun of the protocol.
        factory: ``factory(options)``, or ``factory()`` when there is no options class; returns a Receiver.
        options: an attrs class whose fields are the options, ``None`` for none.
        summary: one line for people.
    """

    name: str
    factory: Callable[..., Any]
    options: type | None = None
    summary: str = ""


@frozen
class InputStreamSpec:
    """A source that the driver pulls from, batch by batch.

    Attributes:
        name: lowercase.
        factory: ``factory(options)``, or ``factory()`` when there is no options class; returns an InputSource.
        options: an attrs class whose fields are the options, ``None`` for none.
        summary: one line for people.
    """

    name: str
    factory: Callable[..., InputSource]
    options: type | None = None
    summary: str = ""


@frozen
class SourceBatch:
    """What a pulled source gives to one batch.

    Attributes:
        rdd: the records.
        num_records: how many, as far as it is known before they are read.
        metadata: anything to say about them; the key ``Description`` is for people.
        count: asked when the batch's jobs have ended, for how many there were; ``None`` when ``num_records`` is true.
    """

    rdd: RDD[Any]
    num_records: int = 0
    metadata: Mapping[str, Any] = field(factory=dict)
    count: Callable[[], int] | None = None


@runtime_checkable
class InputSource(Protocol):
    """A source that the driver pulls from, batch by batch. Called on the generator's loop, unless it says otherwise."""

    def open(self, sc: SparkContext, batch_interval_ms: int) -> None:
        """Get to know what it works for: once, on the program's thread, when the stream is made."""
        ...

    def start(self) -> None:
        """Get ready for the first batch."""
        ...

    def compute(self, batch_time_ms: int) -> SourceBatch:
        """Make a batch: in the order of times, and again for a time only if it raised. Should return at once."""
        ...

    def clean_up(self, before_ms: int) -> None:
        """Forget what concerns batches strictly older than a time."""
        ...

    def stop(self) -> None:
        """Release what ``start`` took."""
        ...


@runtime_checkable
class RecoverableSource(InputSource, Protocol):
    """A source that a later run can go on with."""

    def position(self) -> Mapping[str, Any]:
        """Where it is, and the batches not yet cleaned up; JSON values. At each checkpoint: return at once.

        From ``open`` on, and never while a batch is made.
        """
        ...

    def go_on_from(self, position: Mapping[str, Any]) -> None:
        """Be where an earlier run's source was: after ``open``, before ``start``."""
        ...

    def compute_again(self, batch_time_ms: int) -> SourceBatch | None:
        """A batch that an earlier run's source made; ``None`` when it had nothing."""
        ...


@frozen
class RateEstimatorSpec:
    """A rate estimator that configuration can name.

    Attributes:
        name: lowercase.
        factory: ``factory(options, batch_interval_ms)``; returns a RateEstimator.
        options: an attrs class whose fields are the options, ``None`` for none.
        summary: one line for people.
    """

    name: str
    factory: Callable[..., RateEstimator]
    options: type | None = None
    summary: str = ""


@runtime_checkable
class RateEstimator(Protocol):
    """Says how many records/s a stream should take, from what the last batch took. Reads no clock and no random."""

    def compute(self, time: int, numElements: int, processingDelay: int, schedulingDelay: int) -> float | None:
        """Estimate the rate.

        Args:
            time: when processing ended, ms.
            numElements: records of the stream in the batch.
            processingDelay: ms.
            schedulingDelay: ms.

        Returns:
            Records/s, or ``None`` to leave the rate as it is.
        """
        ...


Spec = ReceiverSpec | InputStreamSpec | RateEstimatorSpec


@frozen
class Option:
    """One option of a plugin, as ``penstock plugins show`` lists it.

    Attributes:
        name: as it is written in calls and in configuration.
        type: as it is annotated.
        default: as text, ``None`` when the option must be given.
        help: from the field's ``metadata["help"]``.
    """

    name: str
    type: str
    default: str | None
    help: str


def options_of(spec: Spec) -> list[Option]:
    """Describe a spec's options."""
    return [] if spec.options is None else [_describe(field) for field in attrs.fields(spec.options) if field.init]


def _describe(field: attrs.Attribute[Any]) -> Option:
    if field.default is attrs.NOTHING:
        default = None
    elif not field.repr:
        default = "(hidden)"
    elif isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]  # a class at run time, a function in the stubs
        default = "(made for each)"
    else:
        default = repr(field.default)
    kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return Option(field.alias or field.name, str(kind), default, str(field.metadata.get("help", "")))


def read_options(kind: str, spec: Spec, given: Mapping[str, Any]) -> Any:
    """Make an instance of a spec's options class.

    Args:
        kind: what the spec is, for messages: ``receiver``, ``rate estimator``.
        spec: whose options.
        given: option → value; text is converted to the field's type.

    Returns:
        The instance, ``None`` when the spec has no options.

    Raises:
        UnknownNameError: an option does not exist; names the nearest.
        ConfigurationError: an option is missing or its value cannot be used.
    """
    known = options_of(spec)
    for name in given:
        if name not in {option.name for option in known}:
            raise UnknownNameError(f"option of {kind} {spec.name!r}", name, [option.name for option in known])
    missing = [option.name for option in known if option.default is None and option.name not in given]
    if missing:
        raise ConfigurationError(f"{kind} {spec.name!r} needs the option {missing[0]!r}, which was not given")
    if spec.options is None:
        return None
    try:
        return converter.structure(_split_lists(given, spec.options), spec.options)
    except cattrs.BaseValidationError as error:
        said = cattrs.transform_error(error, path=spec.name, format_exception=_explain)
        # What is wrong with the options as a whole is at no field: its place would be the name again.
        reasons = "; ".join(reason.removesuffix(f" @ {spec.name}") for reason in said)
        raise ConfigurationError(f"{kind} {spec.name!r}: {reasons}") from None
    except (ValueError, TypeError, cattrs.StructureHandlerNotFoundError) as error:
        raise ConfigurationError(f"{kind} {spec.name!r}: {error}") from None


_COLLECTIONS = (list, tuple, set, frozenset, Sequence, MutableSequence, Set, MutableSet)


def _split_lists(given: Mapping[str, Any], options: type) -> dict[str, Any]:
    """Text for an option that holds several values is a list separated by commas, as configuration has it."""
    hints = get_type_hints(options)
    kinds = {field.alias or field.name: hints.get(field.name) for field in attrs.fields(options)}
    return {
        name: [item.strip() for item in value.split(",") if item.strip()]
        if isinstance(value, str) and _holds_several(kinds.get(name))
        else value
        for name, value in given.items()
    }


def _holds_several(kind: Any) -> bool:
    either = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return any(get_origin(each) in _COLLECTIONS for each in either)


def _explain(error: BaseException, _kind: type | None) -> str:
    return str(error) or type(error).__name__
