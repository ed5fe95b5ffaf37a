"""Plugin checks PK-01 to PK-07 and PK-15: entry point, names, hooks, import, README."""

from __future__ import annotations

import importlib.metadata
from difflib import get_close_matches

from penstock.spi import GROUP, LoadedPlugin, Option, Plugins
from penstock_testing.check import SUITES_GROUP, NotApplicable, check, fail
from penstock_testing.packaging_subject import PackagingSubject
from penstock_testing.plugin_probe import Facts, installed

_IMPORT_BUDGET_S = 0.5
# Entry-point groups of commands and demonstrations.
_FURTHER_GROUPS = (f"{GROUP}.commands", f"{GROUP}.demos")


def _loadable(subject: PackagingSubject) -> Facts:
    """The facts of the plugin; not applicable if its import fails."""
    facts = subject.facts()
    if facts.step == "import":
        raise NotApplicable(f"the entry point {facts.name} does not load: see PK-01")
    return facts


class PackagingChecks:
    """The checks of this module, as test methods."""

    @check("PK-01", "must", change="correct the entry point's value in pyproject.toml, or the imports of the module")
    def test_PK_01_entry_point_resolves(self, subject: PackagingSubject) -> None:
        """The installed entry point refers to an object that can be imported.

        Purpose: the loader skips a plugin that it cannot import, and the names of its receivers are then unknown.
        Condition: it loads, and neither raises, nor ends the process, nor hangs.
        """
        if subject.plugin() is None:
            fail(f"no installed plugin has or offers the name {subject.suite.name!r}", subject.suite.name)
        facts = subject.facts()
        if facts.step == "import":
            fail(
                f"the entry point {facts.name!r} does not load: {facts.fault}",
                f"{facts.name} = {facts.value!r} of {facts.distribution}",
            )

    @check(
        "PK-02", "must", change=f"rename the group of the entry point to {GROUP!r}, or to {SUITES_GROUP!r} for a suite"
    )
    def test_PK_02_group_is_known(self, subject: PackagingSubject) -> None:
        """Every entry point for Penstock is in a group that Penstock reads.

        Purpose: an entry point in a misspelt group is ignored without a message.
        Condition: no group resembles one of these names without being equal to it.
        """
        plugin, name = subject.plugin(), subject.suite.name
        for entry_point in [
            entry_point for one in importlib.metadata.distributions() for entry_point in one.entry_points
        ]:
            group = entry_point.group.lower()
            near = GROUP in group or get_close_matches(group.partition(".")[0], [GROUP], cutoff=0.8)
            if not near or entry_point.group in {GROUP, SUITES_GROUP, *_FURTHER_GROUPS}:
                continue
            if (
                entry_point.name == name
                if plugin is None
                else LoadedPlugin.of(entry_point).distribution == plugin.distribution
            ):
                fail(
                    f"the entry point {entry_point.name} = {entry_point.value!r} "
                    f"is in the group {entry_point.group!r}, which Penstock ignores",
                    entry_point.group,
                )

    @check("PK-03", "must", change="choose a unique name of lowercase ASCII letters, digits, - and _")
    def test_PK_03_name_is_legal_and_free(self, subject: PackagingSubject) -> None:
        """The names of the plugin and of its offers are legal, and no other installed plugin uses them.

        Purpose: programs cannot use a name that two plugins offer until their configuration prefers one; a key with the
            name of two plugins sets both.
        Condition: the names are lowercase ASCII; no other plugin has the same name, or offers the same name for the
            same kind.
        """
        mine = subject.facts()
        names = [mine.name, *(name for _, name in mine.offers)]
        if illegal := [name for name in names if not Plugins.LEGAL_NAME.fullmatch(name)]:
            fail(f"the name {illegal[0]!r} is not lowercase ASCII", illegal[0])
        if "is not lowercase ASCII" in mine.fault:
            fail(mine.fault)
        for other in installed():
            if (other.name, other.value, other.distribution) == (mine.name, mine.value, mine.distribution):
                continue
            if other.name == mine.name:
                fail(f"{other.distribution} has a plugin with the name {mine.name!r}, too", mine.name)
            for kind, name in set(subject.facts_of(other).offers) & set(mine.offers):
                fail(f"{other.distribution} offers the {kind} {name!r}, too", name)

    @check("PK-04", "must", change="compare the names, arguments and results of the hooks with penstock/hookspecs.py")
    def test_PK_04_hooks_match_specs(self, subject: PackagingSubject) -> None:
        """Every hook implementation matches a hook specification and returns the specified type.

        Purpose: a misspelt hook is never called, and the loader skips a plugin whose hook raises or returns a wrong
            type.
        Condition: the plugin implements at least one hook; all hooks and their arguments are known; the results are
            specs with attrs classes as options.
        """
        facts = _loadable(subject)
        if facts.step == "hooks" and "is not lowercase ASCII" not in facts.fault:
            fail(f"the plugin's hooks do not match: {facts.fault}", facts.value)

    @check(
        "PK-05", "must", change="port the plugin to this version of the contract, or install the Penstock that it needs"
    )
    def test_PK_05_api_version_declared(self, subject: PackagingSubject) -> None:
        """The plugin's ``penstock_api``, 1 by default, equals the core's version of the plugin contract.

        Purpose: a plugin for another version of the contract would fail later, with an obscure error.
        Condition: the loader accepts the version.
        """
        facts = _loadable(subject)
        if facts.step == "api":
            fail(f"the loader refuses the plugin: {facts.fault}", "penstock_api")

    @check("PK-06", "must", change="move this code from the module level into onStart, the factory or the hook")
    def test_PK_06_import_is_inert(self, subject: PackagingSubject) -> None:
        """The import of the plugin has no side effects.

        Purpose: every driver and executor imports every installed plugin, including those that a program does not use.
        Condition: the import changes none of them, prints nothing, and does not import pyspark.
        """
        facts = _loadable(subject)
        if facts.side_effects:
            fail(f"after the import, {'; '.join(facts.side_effects)}", f"import {facts.value.partition(':')[0]}")

    @check("PK-07", "should", change="import large libraries in the function that needs them")
    def test_PK_07_import_is_quick(self, subject: PackagingSubject) -> None:
        """The import of the plugin takes at most 0.5 s.

        Purpose: every driver, executor and penstock command waits for it.
        Condition: the fastest import takes at most 0.5 s, multiplied by PENSTOCK_TEST_SCALE.
        """
        budget_s = subject.deadline_s(_IMPORT_BUDGET_S)
        seconds = _loadable(subject).seconds
        for _ in range(2):
            if seconds <= budget_s:
                return
            seconds = min(seconds, subject.facts(again=True).seconds)
        if seconds > budget_s:
            fail(
                f"the import took {seconds:.2f} s, and {budget_s:g} s are permitted", f"import {subject.facts().value}"
            )

    @check("PK-15", "may", change="add a table of the options to the README, and name the README in pyproject.toml")
    def test_PK_15_readme_names_options(self, subject: PackagingSubject) -> None:
        """The README names every option.

        Purpose: a package index shows the README to people who have not installed the plugin yet.
        Condition: the description contains the name of every option.
        """
        facts = subject.facts()
        specs = subject.specs_with_options()
        metadata = importlib.metadata.metadata(facts.distribution)
        text = str(metadata.get_payload() or metadata["Description"] or "")  # type: ignore[attr-defined]  # an email message
        missing = [option.name for _, spec in specs for option in Option.of(spec.options) if option.name not in text]
        if missing:
            fail(f"the README of {facts.distribution} does not name the options {', '.join(missing)}", missing[0])
