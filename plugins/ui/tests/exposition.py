"""Reads the text format of Prometheus as strictly as promtool checks it."""

from __future__ import annotations

import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABELS = r'\{(?P<labels>[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*")*)\}'
_SAMPLE = re.compile(rf"(?P<name>{_NAME})(?:{_LABELS})? (?P<value>NaN|[+-]?Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"')
_WRONG_UNITS = ("_ms", "milliseconds", "minutes", "kilobytes", "megabytes", "percent")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """The samples by name and labels.

    Raises:
        AssertionError: what promtool would complain about.
    """
    samples: Samples = {}
    kinds: dict[str, str] = {}
    helps: set[str] = set()
    current = ""
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            _, _, name, help = line.split(" ", 3)
            assert re.fullmatch(_NAME, name), line
            assert help.strip(), f"no help text: {name}"
            assert name not in helps, f"two HELP lines: {name}"
            helps.add(name)
            current = name
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("gauge", "counter"), line
            assert name == current, f"TYPE does not follow its HELP: {name}"
            assert name not in kinds, f"two TYPE lines: {name}"
            kinds[name] = kind
            _check_name(name, kind)
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, f"no sample: {line}"
            assert found["name"] == current, f"samples of a metric are not together: {line}"
            labels = _LABEL.findall(found["labels"] or "")
            assert not {"quantile", "le"} & {name for name, _ in labels}, f"label of a summary or histogram: {line}"
            assert len({name for name, _ in labels}) == len(labels), f"label twice: {line}"
            key = (found["name"], tuple(sorted((name, _unescaped(value)) for name, value in labels)))
            assert key not in samples, f"sample twice: {line}"
            samples[key] = float(found["value"])
            assert kinds[current] == "gauge" or samples[key] >= 0, f"negative counter: {line}"
    return samples


def _check_name(name: str, kind: str) -> None:
    assert name == name.lower(), f"not snake_case: {name}"
    assert name.endswith("_total") == (kind == "counter"), f"_total is for counters: {name}"
    assert not any(wrong in f"{name}_" for wrong in (f"{each}_" for each in _WRONG_UNITS)), f"no base unit: {name}"
    assert kind not in name.split("_"), f"type in the name: {name}"


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)
