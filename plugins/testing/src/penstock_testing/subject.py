"""``Subject``: a plugin under test with everything that its checks need.

Each suite, ``run_checks`` and ``penstock plugins check`` make one and hand it to the runner.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NoReturn

from attrs import field, frozen

from penstock.errors import ConfigurationError
from penstock.plugins.discovery import KINDS, Plugins
from penstock.plugins.specs import options_of, read_options
from penstock_testing.capabilities import Capabilities
from penstock_testing.check import SUBJECT_KINDS, CheckFailure, Kind, NotApplicable
from penstock_testing.feeder import Feeder

#: Kind of plugin → the hook that offers specs of this kind. Other kinds have no specs.
HOOKS: Mapping[str, str] = {"receiver": "receivers", "rate-estimator": "rate_estimators"}


@frozen(kw_only=True)
class Subject:
    """A plugin under test.

    Attributes:
        kind: ``receiver``, ``rate-estimator``, ``listener``, ``block-store``; ``plugin`` for its packaging alone.
        make: makes an instance. Receiver: ``make(feeder)``, or ``make()``; a replayable one
            ``make(feeder, position=None)``, a partitioned one ``make(feeder, index=0, count=1)``, see
            ``ReceiverKit.make``. Rate estimator: ``make(batch_interval_ms)``.
            Listener: ``make(context)`` with a ``ListenerContext`` returns a listener, several, or a ``ListenerProbe``.
            Block store: ``make(folder)`` returns an object with the hook ``store``. ``None``: the factory of the
            installed plugin ``name``.
        feeder: makes a feeder; receivers only. ``None``: checks that need data are not applicable.
        name: the name under which an installed plugin offers the receiver or estimator; for other kinds the name of the
            entry point. Empty for an object that no entry point offers: packaging checks are then not applicable.
        options: options for the installed plugin, in addition to those of the feeder.
        capabilities: the capabilities that the plugin declares.
        expected_failures: check id → reason. Strict: an expected failure that passes is a failure.
        conf: configuration by full key; every check uses it.
        seed: seeds every random value.
        live: whether to run the checks that start Spark.
    """

    kind: Kind
    make: Callable[..., Any] | None = None
    feeder: Callable[[], Feeder] | None = None
    name: str = ""
    options: Mapping[str, Any] = field(factory=dict)
    capabilities: Capabilities = field(factory=Capabilities)
    expected_failures: Mapping[str, str] = field(factory=dict)
    conf: Mapping[str, str] = field(factory=dict)
    seed: int = 0
    live: bool = False

    def __attrs_post_init__(self) -> None:
        """Check the arguments.

        Raises:
            ConfigurationError: the kind has no checks, or both ``make`` and ``name`` are missing.
        """
        if self.kind not in SUBJECT_KINDS:
            raise ConfigurationError(f"kind={self.kind!r}: must be one of {', '.join(SUBJECT_KINDS)}")
        if self.make is None and not (self.name and self.kind in {*HOOKS, "plugin"}):
            raise ConfigurationError(f"a {self.kind} suite needs make: a function that returns a new instance")

    @property
    def title(self) -> str:
        """The name for reports."""
        return self.name or getattr(self.make, "__qualname__", str(self.make))

    def instance(self, *arguments: Any, **keywords: Any) -> Any:
        """Make an instance.

        Args:
            arguments: the feeder, the batch interval, the context or the folder; the first arguments of ``make``.
            keywords: passed to ``make`` if it has arguments of these names.
        """
        return self.maker(*arguments, **keywords)()

    def maker(self, *arguments: Any, **keywords: Any) -> Callable[[], Any]:
        """A function that makes an instance. Its arguments are those of ``instance``.

        Plugins are loaded and options are read before it is returned, so that it runs the plugin's code alone.
        """
        if self.make is None:
            return self._from_plugin(*arguments, **keywords)
        known = {name: value for name, value in keywords.items() if self.takes(name)}
        return partial(self.make, *arguments[: _positional(self.make)], **known)

    def takes(self, name: str) -> bool:
        """Whether ``make`` has an argument of this name; true for an installed plugin."""
        return self.make is None or name in inspect.signature(self.make).parameters

    @cached_property
    def _spec(self) -> Any:
        """The installed plugin's spec. A check may make many instances."""
        return Plugins().spec(HOOKS[self.kind], self.name)

    def _from_plugin(
        self, *arguments: Any, position: Mapping[str, Any] | None = None, index: int = 0, count: int = 1
    ) -> Callable[[], Any]:
        spec = self._spec
        given = dict(self.options)
        feeder = arguments[0] if arguments and isinstance(arguments[0], Feeder) else None
        if feeder is not None:
            arguments = ()
            given |= feeder.options()
            given |= {} if position is None else feeder.position_options(position)
            given |= {} if count == 1 else feeder.share_options(index, count)
        kind = KINDS[HOOKS[self.kind]][0]
        for option in options_of(spec):
            if option.default is None and option.name not in given:
                _refuse(f"{kind} {self.name!r} needs the option {option.name!r}", feeder, given)
        options = read_options(kind, spec, given)
        return partial(spec.factory, *(() if options is None and self.kind == "receiver" else (options,)), *arguments)


def _refuse(needed: str, feeder: Feeder | None, given: Mapping[str, Any]) -> NoReturn:
    """Report that a required option is missing. With a feeder, which gives the options, it is a failure.

    Raises:
        NotApplicable: there is no feeder.
        CheckFailure: the feeder does not give the option.
    """
    if feeder is None:
        raise NotApplicable(f"{needed}: set options or a feeder")
    name, names = type(feeder).__name__, ", ".join(given) or "no option"
    raise CheckFailure(
        f"{needed}, and {name} gives {names}",
        change=f"return the receiver's options from {name}.options, or set options in the suite",
    )


def _positional(function: Callable[..., Any]) -> int:
    """The number of positional arguments that a function takes."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 1
    return sum(each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD} for each in parameters)
