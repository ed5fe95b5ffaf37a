"""``PackagingKit``, the argument of a packaging check: finds the installed plugin, loads it, and makes instances."""

from __future__ import annotations

import importlib.metadata
from functools import cached_property

from penstock.hookspecs import GROUP
from penstock.plugins.discovery import KINDS, LoadedPlugin, Plugins
from penstock.plugins.specs import ReceiverSpec, Spec
from penstock_testing.check import NotApplicable
from penstock_testing.kit import Kit, ReceiverKit
from penstock_testing.plugin_probe import Facts, installed, probe, start_probe
from penstock_testing.rate_estimator_kit import RateEstimatorKit
from penstock_testing.subject import HOOKS, Subject

_PROBE_LIMIT_S = 10.0


class PackagingKit(Kit):
    """The kit of the packaging checks. It looks for the plugin, and loads it in this process, at most once."""

    _loaded: Plugins | None = None

    @classmethod
    def prepare(cls, subject: Subject) -> None:
        """Start the probe process, and import what running a receiver needs."""
        start_probe()
        if subject.kind == "receiver" and subject.feeder is not None:
            ReceiverKit.prepare(subject)

    def facts_of(self, plugin: LoadedPlugin, *, again: bool = False) -> Facts:
        """The facts about loading a plugin, cached in this process; ``again`` loads it once more."""
        return probe(plugin, self.deadline_s(_PROBE_LIMIT_S), again=again)

    def plugin(self) -> LoadedPlugin | None:
        """The installed plugin under test, not loaded; ``None`` when no installed plugin has or offers the name.

        Raises:
            NotApplicable: the suite sets no name.
        """
        if not self.subject.name:
            raise NotApplicable("the suite names no installed plugin: set name")
        return self._plugin

    @cached_property
    def _plugin(self) -> LoadedPlugin | None:
        name = self.subject.name
        found = sorted(installed(), key=lambda each: each.name != name)
        hook = HOOKS.get(self.subject.kind)
        if hook is not None:
            offer = (KINDS[hook][0], name)
            if offering := next((each for each in found if offer in self.facts_of(each).offers), None):
                return offering
        return next((each for each in found if each.name == name), None)

    def facts(self, *, again: bool = False) -> Facts:
        """The facts about loading the plugin under test.

        Raises:
            NotApplicable: the suite sets no name, or no installed plugin has it.
        """
        plugin = self.plugin()
        if plugin is None:
            raise NotApplicable(f"no installed plugin has or offers the name {self.subject.name!r}")
        return self.facts_of(plugin, again=again)

    def loaded(self) -> Plugins:
        """The plugin, loaded alone in this process.

        Raises:
            NotApplicable: the plugin does not load.
        """
        plugin, facts = self.plugin(), self.facts()
        if plugin is None or facts.step:
            raise NotApplicable(f"the plugin {facts.name} does not load: {facts.fault}")
        if self._loaded is None:
            candidates = importlib.metadata.entry_points(group=GROUP, name=plugin.name)
            self._loaded = Plugins(entry_points=[each for each in candidates if LoadedPlugin.of(each) == plugin][:1])
        return self._loaded

    def specs(self) -> list[tuple[str, Spec]]:
        """Kind and spec of what the plugin offers under the subject's name or, for other kinds, of all that it offers.

        Raises:
            NotApplicable: the plugin does not load.
        """
        loaded = self.loaded()
        hook = HOOKS.get(self.subject.kind)
        if hook is not None:
            return [(KINDS[hook][0], loaded.spec(hook, self.subject.name))]
        return [(kind, spec) for hook, (kind, _) in KINDS.items() for spec in loaded.specs(hook).values()]

    def specs_with_options(self) -> list[tuple[str, Spec]]:
        """``specs``, and for a plugin as a whole the options classes that it declares for its listeners.

        The kind of these is ``configuration``, their name the prefix of the keys; their factory makes nothing.
        """
        specs = self.specs()
        if self.subject.kind in HOOKS:
            return specs
        (record,) = self.loaded().loaded
        declared = [ReceiverSpec(prefix, _nothing, options) for prefix, options in record.options.items()]
        return [*specs, *(("configuration", each) for each in declared)]

    def of_kind(self) -> ReceiverKit | RateEstimatorKit:
        """The kit of the subject's own kind, which makes instances.

        Raises:
            NotApplicable: the subject is neither a receiver nor a rate estimator.
        """
        kits: dict[str, type[ReceiverKit | RateEstimatorKit]] = {
            "receiver": ReceiverKit,
            "rate-estimator": RateEstimatorKit,
        }
        if self.subject.kind not in kits:
            raise NotApplicable("this check runs instances, and the packaging alone has none: give a suite")
        kit = kits[self.subject.kind](self.subject, self.check, self.folder)
        self.on_close(kit.close)
        return kit


def _nothing(_options: object) -> None:
    """The instance of a plugin's options for its listeners."""
