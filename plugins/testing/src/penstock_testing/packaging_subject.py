"""``PackagingSubject``, the argument of a packaging check: finds and loads the installed plugin, makes instances."""

from __future__ import annotations

import importlib.metadata
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.spi import GROUP, LoadedPlugin, Plugins, Spec
from penstock_testing.check import NotApplicable, scale
from penstock_testing.plugin_probe import Facts, installed, probe, start_probe
from penstock_testing.rate_estimator_subject import RateEstimatorSubject
from penstock_testing.receiver_subject import ReceiverSubject
from penstock_testing.subject import HOOKS, Subject

if TYPE_CHECKING:
    from penstock_testing.suites import ConformanceSuite

_PROBE_LIMIT_S = 10.0


class _Configuration(Spec):
    """An options class that a plugin declares for its listeners."""

    kind = "configuration"


class PackagingSubject(Subject):
    """The installed plugin under test. It is looked for, and loaded in this process, at most once."""

    _loaded: Plugins | None = None

    @classmethod
    def prepare(cls, suite: ConformanceSuite) -> None:
        start_probe()
        if suite.name:
            for plugin in installed():
                probe(plugin, _PROBE_LIMIT_S * scale())
        if suite.kind == "receiver" and suite.feeder is not None:
            ReceiverSubject.prepare(suite)

    def facts_of(self, plugin: LoadedPlugin, *, again: bool = False) -> Facts:
        """The facts about loading a plugin, cached in this process; ``again`` loads it once more."""
        return probe(plugin, self.deadline_s(_PROBE_LIMIT_S), again=again)

    def plugin(self) -> LoadedPlugin | None:
        """The installed plugin under test, not loaded; ``None`` when no installed plugin has or offers the name."""
        if not self.suite.name:
            raise NotApplicable("the suite names no installed plugin: set name")
        return self._plugin

    @cached_property
    def _plugin(self) -> LoadedPlugin | None:
        name = self.suite.name
        plugins = sorted(installed(), key=lambda plugin: plugin.name != name)
        hook = HOOKS.get(self.suite.kind)
        if hook is not None:
            offer = (Plugins.KINDS[hook].kind, name)
            if offering := next((plugin for plugin in plugins if offer in self.facts_of(plugin).offers), None):
                return offering
        return next((plugin for plugin in plugins if plugin.name == name), None)

    def facts(self, *, again: bool = False) -> Facts:
        """The facts about loading the plugin under test."""
        plugin = self.plugin()
        if plugin is None:
            raise NotApplicable(f"no installed plugin has or offers the name {self.suite.name!r}")
        return self.facts_of(plugin, again=again)

    def loaded(self) -> Plugins:
        """The plugin, loaded alone in this process."""
        plugin, facts = self.plugin(), self.facts()
        if plugin is None or facts.step:
            raise NotApplicable(f"the plugin {facts.name} does not load: {facts.fault}")
        if self._loaded is None:
            candidates = importlib.metadata.entry_points(group=GROUP, name=plugin.name)
            self._loaded = Plugins(
                entry_points=[entry_point for entry_point in candidates if LoadedPlugin.of(entry_point) == plugin][:1]
            )
        return self._loaded

    def specs(self) -> list[tuple[str, Spec]]:
        """Kind and spec of what the plugin offers under the suite's name; for other kinds, of all that it offers."""
        loaded = self.loaded()
        hook = HOOKS.get(self.suite.kind)
        if hook is not None:
            return [(Plugins.KINDS[hook].kind, loaded.spec(hook, self.suite.name))]
        return [(spec.kind, spec) for hook in Plugins.KINDS for spec in loaded.specs(hook).values()]

    def specs_with_options(self) -> list[tuple[str, Spec]]:
        """``specs``, and for a plugin as a whole the options classes that it declares for its listeners.

        The kind of these is ``configuration``, their name the prefix of the keys; their factory makes nothing.
        """
        specs = self.specs()
        if self.suite.kind in HOOKS:
            return specs
        (record,) = self.loaded().loaded
        declared = [_Configuration(prefix, _nothing, options) for prefix, options in record.options.items()]
        return [*specs, *(("configuration", key) for key in declared)]

    def of_kind(self) -> ReceiverSubject | RateEstimatorSubject:
        """The subject of the suite's own kind, which makes instances."""
        classes: dict[str, type[ReceiverSubject | RateEstimatorSubject]] = {
            "receiver": ReceiverSubject,
            "rate-estimator": RateEstimatorSubject,
        }
        if self.suite.kind not in classes:
            raise NotApplicable("this check runs instances, and the packaging alone has none: give a suite")
        subject = classes[self.suite.kind](self.suite, self.check, self.folder, self.output)
        self.on_close(subject.close)
        return subject


def _nothing(_options: object) -> None:
    """The instance of a plugin's options for its listeners."""
