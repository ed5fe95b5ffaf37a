"""Discovers plugins through the entry-point group ``penstock`` and loads each one isolated from the others.

A plugin that does not load is logged with its distribution and version, and left out. Used on the driver when a context
is made, and on executors when a receiver starts. A plugin's import runs in the program's process: it may end it, block
it or change its global state. ``spark.penstock.plugins.disable`` skips such a plugin without importing it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

import attrs
import pluggy
from attrs import Factory, define, field

from penstock import hookspecs
from penstock.conf import Settings
from penstock.errors import (
    ConfigurationError,
    PenstockError,
    PluginError,
    UnknownNameError,
    how_to_install,
    plugin_distribution,
    shown,
    summary_of,
    text_of,
)
from penstock.hookspecs import API_VERSION, GROUP
from penstock.listen.events import HOOK_OF
from penstock.listen.registered_listener import RegisteredListener, register
from penstock.plugins.extra_listeners import extra_listeners
from penstock.plugins.specs import (
    InputStreamSpec,
    Option,
    RateEstimatorSpec,
    ReceiverSpec,
    Spec,
)
from penstock.runtime.log import get_logger
from penstock.version import check_core_version

log = get_logger("plugins")

NAME_RULE = "lowercase ASCII (letters, digits, - and _; a letter first)"


@define
class LoadedPlugin:
    """One plugin: its entry point and distribution, and how loading it ended.

    Attributes:
        value: the object reference of the entry point.
        specs: offered specs, by hook.
        options: the options classes that its listeners read, by prefix of their keys.
        in_production: its defaults of configuration keys in the profile ``production``.
        answers: the hooks that it answers for the whole program; those that it only wraps are not among them.
        fault: why it was left out; empty when it was loaded.
        disabled: whether ``spark.penstock.plugins.disable`` names it.
    """

    name: str
    distribution: str
    version: str
    value: str
    hooks: list[str] = Factory(list)
    specs: dict[str, list[Any]] = Factory(dict)
    options: dict[str, type] = Factory(dict)
    in_production: dict[str, str] = Factory(dict)
    answers: list[str] = Factory(list)
    fault: str = ""
    disabled: bool = False
    plugin: object = field(default=None, repr=False)

    @classmethod
    def of(cls, entry_point: importlib.metadata.EntryPoint) -> LoadedPlugin:
        """The plugin of an entry point, not loaded yet."""
        name, version = "unknown distribution", "?"
        # An interrupted uninstall leaves entry points without metadata.
        with contextlib.suppress(Exception):
            if entry_point.dist is not None:
                metadata = entry_point.dist.metadata  # parsed at each access
                name, version = metadata["Name"] or name, metadata["Version"] or version
        return cls(entry_point.name, name, version, entry_point.value)

    @property
    def is_working(self) -> bool:
        """Whether it was loaded."""
        return not self.fault and not self.disabled

    @property
    def absence(self) -> str:
        """Why it does not offer what a program looks for."""
        reason = "spark.penstock.plugins.disable names it" if self.disabled else self.fault
        return f"the plugin {self.origin} " + (f"was left out: {reason}" if reason else "does not offer it")

    @property
    def origin(self) -> str:
        """Name, distribution and version, for messages."""
        return f"{self.name} ({self.distribution} {self.version})"


def origin_of(kind: type, plugins: Iterable[LoadedPlugin]) -> str:
    """Distribution and version of the plugin that a class belongs to; empty for a class of no plugin."""
    package = kind.__module__.partition(".")[0]
    for plugin in plugins:
        if re.split("[.:]", plugin.value)[0] == package:
            return f"{plugin.distribution} {plugin.version}"
    return ""


def installed() -> list[LoadedPlugin]:
    """The installed plugins, not loaded."""
    return [LoadedPlugin.of(entry_point) for entry_point in importlib.metadata.entry_points(group=GROUP)]


class Plugins:
    """The plugins of one process: ``entry_points``, by default all installed ones, except those named in ``disable``.

    Using a name that several plugins offer raises ``ConfigurationError``, unless ``prefer`` lists one of their
    distributions; the first match wins. Their other names are unaffected. So does a hook that several plugins answer.

    Attributes:
        KINDS: hook that offers specs → their class.
        ANSWERED: hook that one plugin answers for the whole program → the usual name of that plugin.
        LEGAL_NAME: pattern of the names of entry points, and of the receivers, streams and estimators of plugins.
        additional_entry_points: plugins of this process besides the installed ones, such as the command line's.

    Raises:
        PluginError: ``strict`` is set, and a plugin does not load or several plugins offer one name.
    """

    KINDS: ClassVar[dict[str, type[Spec]]] = {
        "receivers": ReceiverSpec,
        "input_streams": InputStreamSpec,
        "rate_estimators": RateEstimatorSpec,
    }
    ANSWERED: ClassVar[dict[str, str]] = {"dataframes": "dataframes", "columns": "dataframes", "state": "state"}
    LEGAL_NAME: ClassVar[re.Pattern[str]] = re.compile(r"[a-z][a-z0-9_-]*")
    additional_entry_points: ClassVar[list[importlib.metadata.EntryPoint]] = []

    def __init__(
        self,
        disable: Iterable[str] = (),
        *,
        strict: bool = False,
        prefer: Sequence[str] = (),
        entry_points: Sequence[importlib.metadata.EntryPoint] | None = None,
    ) -> None:
        self.manager = pluggy.PluginManager(GROUP)
        self.manager.add_hookspecs(hookspecs)
        self.manager.add_hookspecs(hookspecs.StreamingListener)
        self.loaded: list[LoadedPlugin] = []
        self._prefer = prefer
        skip = set(disable)
        if entry_points is None:
            entry_points = [*importlib.metadata.entry_points(group=GROUP), *self.additional_entry_points]
        # A distribution can be found twice (an editable install beside its metadata). Sorted for repeatable reports.
        for entry_point in sorted(set(entry_points), key=lambda candidate: (candidate.name, candidate.value)):
            record = LoadedPlugin.of(entry_point)
            self.loaded.append(record)
            if record.name in skip:
                record.disabled = True
                continue
            try:
                self._load(entry_point, record)
            # Third-party code: whatever it raises while it loads concerns this plugin only. SystemExit and the panics
            # of extensions written in Rust are not subclasses of Exception.
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                # Unregister the object only if this entry point registered it; another one may have done so before.
                if record.plugin is not None and self.manager.get_plugin(record.origin) is record.plugin:
                    self.manager.unregister(record.plugin)
                record.fault = str(error) if isinstance(error, PluginError) else summary_of(error)
                if strict:
                    raise PluginError(f"plugin {record.origin} does not load: {record.fault}") from error
                log.warning("plugin left out", plugin=record.origin, value=record.value, fault=record.fault)
        for name in sorted(skip - {record.name for record in self.loaded}):
            log.warning("disabled plugin not installed", plugin=name, key="spark.penstock.plugins.disable")
        for name in sorted(set(prefer) - {record.distribution for record in self.loaded}):
            log.warning("preferred distribution not installed", distribution=name, key="spark.penstock.plugins.prefer")
        for clash in self.clashes():
            if strict:
                raise PluginError(clash)
            log.warning("name offered by several plugins", reason=clash)

    def spec(self, hook: str, name: str, key: str = "") -> Any:
        """Find a spec by the hook that offers it and its name; ``key`` is the configuration key that has the name.

        Raises:
            UnknownNameError: no plugin offers it; names the nearest, or how to install one.
            ConfigurationError: several plugins offer it; names them, and the key that decides.
        """
        specs, rivals = self.specs(hook), self.offers(hook).get(name, [])
        if name in specs:
            return specs[name]
        if rivals:
            raise ConfigurationError(_name_clash(rivals))
        advice = [f"It is set by {key}."] * bool(key)
        if self._reason(name, left_out_only=True) or not get_close_matches(name, specs, cutoff=0.5):
            advice.append(f"No plugin offers it: {self.remedy(name)}")
        raise UnknownNameError(self.KINDS[hook].kind, name, specs, advice=" ".join(advice))

    def make(self, hook: str, name: str, settings: Settings, options: Mapping[str, Any]) -> Any:
        """Create what the hook ``receivers`` or ``input_streams`` offers under a name.

        The configuration sets the options that ``options`` does not. Raises as ``spec`` and ``Spec.read_options``.
        """
        spec = self.spec(hook, name)
        values = spec.read_options(options, settings)
        return spec.factory() if spec.options is None else spec.factory(values)

    def specs(self, hook: str) -> dict[str, Any]:
        """The specs that a hook offers, by name, without those of names that several plugins offer."""
        return {name: offers[0][1] for name, offers in self.offers(hook).items() if len(offers) == 1}

    def offers(self, hook: str) -> dict[str, list[tuple[LoadedPlugin, Spec]]]:
        """A hook's offers by name, as pairs of plugin and spec.

        A name has several pairs if ``prefer`` does not decide.
        """
        by_name: dict[str, list[tuple[LoadedPlugin, Spec]]] = {}
        for record in self._working:
            for spec in record.specs.get(hook, ()):
                by_name.setdefault(spec.name, []).append((record, spec))
        for name, offers in by_name.items():
            preferred = self._preferred([record for record, _spec in offers])
            by_name[name] = [offer for offer in offers if offer[0] in preferred]
        return by_name

    def clashes(self) -> list[str]:
        """Messages for the names that several plugins offer and the hooks that several answer, none preferred."""
        offered = (offers for hook in self.KINDS for offers in self.offers(hook).values())
        answering = {hook: self._preferred(self._answering(hook)) for hook in self.ANSWERED}
        return [
            *(_name_clash(offers) for offers in offered if len(offers) > 1),
            *(_answer_clash(hook, plugins) for hook, plugins in answering.items() if len(plugins) > 1),
        ]

    def _preferred(self, rivals: list[LoadedPlugin]) -> list[LoadedPlugin]:
        """The candidates of the first distribution in ``prefer`` that has any; all of them if none has."""
        matches = ([record for record in rivals if record.distribution == name] for name in self._prefer)
        return next(filter(None, matches), rivals)

    def _answering(self, hook: str) -> list[LoadedPlugin]:
        return [record for record in self._working if hook in record.answers]

    @property
    def _working(self) -> list[LoadedPlugin]:
        return [record for record in self.loaded if record.is_working]

    def first_answer(self, hook: str, **arguments: Any) -> Any:
        """Call a hook that one plugin answers.

        Raises:
            ConfigurationError: no plugin answers; says why. Or several may; names them, and the key that decides.
        """
        answering = self._answering(hook)
        preferred = self._preferred(answering)
        if len(preferred) > 1:
            raise ConfigurationError(_answer_clash(hook, preferred))
        others = [record.plugin for record in answering if record not in preferred]
        answer = self.manager.subset_hook_caller(hook, others)(**arguments)
        if answer is not None:
            return answer
        plugin = self.ANSWERED[hook]
        remedy = self._reason(plugin) or f"pip install {plugin_distribution(plugin)}"
        raise ConfigurationError(f"no plugin offers {hook}: {remedy}")

    def remedy(self, name: str) -> str:
        """Advice for a name that no plugin offers.

        Either why the matching plugin does not offer it, or what to install and which plugins did not load.
        """
        left_out = (record.absence for record in self.loaded if not record.is_working)
        return self._reason(name) or "; ".join([how_to_install(name), *left_out])

    def _reason(self, name: str, *, left_out_only: bool = False) -> str:
        """The reasons why plugins that match a name do not offer it.

        For ``raw-socket``, plugins named ``raw`` or ``socket`` match too.
        """
        names = {name, *re.split("[-_]", name)}
        names |= set(map(plugin_distribution, names))
        matches = (record for record in self.loaded if names & {record.name, record.distribution})
        reasons = [record.absence for record in matches if not (left_out_only and record.is_working)]
        return "; ".join(reasons)

    @property
    def in_production(self) -> dict[str, str]:
        """The working plugins' defaults of configuration keys in the profile ``production``."""
        return {key: default for record in self._working for key, default in record.in_production.items()}

    def known_options(self) -> dict[str, list[str] | None]:
        """Return the names of working plugins' options by the prefix of their keys, with its dot.

        A plugin that offers listeners and declares no options may have any: ``None`` for ``spark.penstock.<plugin>.``.
        """
        names: dict[str, list[str] | None] = {
            offers[0][1].prefix: [option.name for _record, spec in offers for option in Option.of(spec.options)]
            for hook in self.KINDS
            for offers in self.offers(hook).values()
        }
        for record in self._working:
            for prefix, kind in record.options.items():
                names[prefix] = [option.name for option in Option.of(kind)]
            if not record.options and "listeners" in record.hooks:
                names[f"spark.penstock.{record.name}."] = None
        return names

    def listeners(self, context: object, extra: Sequence[str] = ()) -> list[RegisteredListener]:
        """Ask every plugin for its listeners; a plugin that implements ``on…`` hooks is itself one.

        ``extra`` is the value of ``spark.streaming.extraListeners``.

        Raises:
            ConfigurationError: an extra listener cannot be imported or created, or its plugin offers none.
        """
        listeners: list[RegisteredListener] = []
        offering: set[str] = set()
        for record in self._working:
            own = {hook: self._positional_caller(record, hook) for hook in record.hooks if hook in HOOK_OF.values()}
            offered = [register(record.plugin, record.origin, own)] if own else []
            offered += self._offered_listeners(record, context) if "listeners" in record.hooks else []
            listeners += offered
            offering |= {record.name} if offered else set()
        return listeners + extra_listeners(extra, offering, context)

    def _offered_listeners(self, record: LoadedPlugin, context: object) -> list[RegisteredListener]:
        """Call a plugin's hook ``listeners``; log what is not a listener."""
        try:
            items = [item for result in self._caller(record, "listeners")(context=context) for item in result]
        except BaseException as error:
            # A PenstockError: the program's configuration is wrong, not the plugin; the start must fail with it.
            if isinstance(error, PenstockError | KeyboardInterrupt):
                raise
            log.exception("plugin's listeners left out", plugin=record.origin)
            return []
        listeners = []
        for item in items:
            try:
                listeners.append(register(item, record.origin))
            except Exception:  # a third-party object may raise when it is asked for its methods
                log.error("listener left out", plugin=record.origin, item=type(item), reason="it has no on… method")
        return listeners

    def _caller(self, record: LoadedPlugin, hook: str) -> Any:
        """Calls a hook of this plugin alone."""
        others = [plugin for plugin in self.manager.get_plugins() if plugin is not record.plugin]
        return self.manager.subset_hook_caller(hook, others)

    def _positional_caller(self, record: LoadedPlugin, hook: str) -> Callable[[object], object]:
        """Call a hook with one argument as the bus calls listeners; pluggy takes keywords only."""
        caller = self._caller(record, hook)
        (argument,) = caller.spec.argnames
        return lambda event: caller(**{argument: event})

    def _load(self, entry_point: importlib.metadata.EntryPoint, record: LoadedPlugin) -> None:
        if not self.LEGAL_NAME.fullmatch(record.name):
            raise PluginError(f"the name {record.name!r} is not {NAME_RULE}")
        if not entry_point.pattern.match(record.value):
            raise PluginError(f"its entry point {record.value!r} is not MODULE or MODULE:ATTRIBUTE")
        check_core_version(entry_point.dist)
        target = entry_point.load()
        api = str(getattr(target, "penstock_api", API_VERSION))
        if api != API_VERSION:
            raise PluginError(
                f"it implements version {api} of the plugin contract, but this Penstock supports version "
                f"{API_VERSION}. Install matching versions of both"
            )
        plugin = target() if isinstance(target, type) else target
        record.plugin = plugin
        # Two distributions may give their plugins one name.
        self.manager.register(plugin, name=record.origin)
        self._check_hooks(plugin)
        record.hooks = sorted(caller.name for caller in self.manager.get_hookcallers(plugin) or ())
        record.answers = [
            caller.name
            for caller in self.manager.get_hookcallers(plugin) or ()
            if caller.name in self.ANSWERED
            and any(impl.plugin is plugin and not impl.wrapper for impl in caller.get_hookimpls())
        ]
        record.options = dict(getattr(target, "penstock_options", {}))
        record.in_production = dict(getattr(target, "penstock_production", {}))
        if not record.hooks:
            raise PluginError(f"{record.value} implements no hook (is @penstock.hookimpl missing?)")
        for hook, spec_class in self.KINDS.items():
            if hook in record.hooks:
                record.specs[hook] = self._collect(record, hook, spec_class)

    def _collect(self, record: LoadedPlugin, hook: str, spec_class: type[Spec]) -> list[Any]:
        kind, specs = spec_class.kind, list[Any]()
        results = self._caller(record, hook)()
        if not results:
            raise PluginError(f"its hook {hook} returned nothing: return an empty list to offer none")
        for result in results:
            for spec in [result] if isinstance(result, spec_class) else result:
                if not isinstance(spec, spec_class):
                    raise PluginError(f"its hook {hook} returned {shown(spec)}, not a {spec_class.__name__}")
                _check_made_from_options(spec)
                if not self.LEGAL_NAME.fullmatch(spec.name):
                    raise PluginError(f"the {kind} name {spec.name!r} is not {NAME_RULE}")
                if any(spec.name == other.name for other in specs):
                    raise PluginError(f"its hook {hook} offers the {kind} {spec.name!r} twice")
                specs.append(spec)
        return specs

    def _check_hooks(self, plugin: object) -> None:
        """Refuse implementations of unknown hooks, which pluggy would silently never call."""
        for caller in self.manager.get_hookcallers(plugin) or ():
            own = [impl for impl in caller.get_hookimpls() if impl.plugin is plugin]
            if not caller.has_spec() and not all(impl.optionalhook for impl in own):
                hooks = [name for name, known in vars(self.manager.hook).items() if known.has_spec()]
                raise UnknownNameError("hook", caller.name, hooks)


def _name_clash(offers: Sequence[tuple[LoadedPlugin, Spec]]) -> str:
    spec = offers[0][1]
    return _clash(f"the {spec.kind} {spec.name!r} is offered by", [record for record, _spec in offers])


def _answer_clash(hook: str, plugins: Sequence[LoadedPlugin]) -> str:
    return _clash(f"the hook {hook!r} is answered by", plugins)


def _clash(what: str, plugins: Sequence[LoadedPlugin]) -> str:
    origins = " and ".join(record.origin for record in plugins)
    distributions = " or ".join(record.distribution for record in plugins)
    return f"{what} {origins}: set spark.penstock.plugins.prefer to {distributions}"


def _check_made_from_options(spec: Spec) -> None:
    """Raise ``PluginError`` if the factory is not callable, or the options no attrs class with resolvable types."""
    if not callable(spec.factory):
        raise PluginError(f"the factory of the {spec.kind} {spec.name!r} cannot be called: {shown(spec.factory)}")
    if spec.options is not None and not (isinstance(spec.options, type) and attrs.has(spec.options)):
        raise PluginError(f"the options of the {spec.kind} {spec.name!r} are not an attrs class: {shown(spec.options)}")
    try:
        Option.of(spec.options)
    except Exception as error:
        raise PluginError(
            f"the options of the {spec.kind} {spec.name!r} have a type that cannot be resolved: {text_of(error)}"
        ) from error
