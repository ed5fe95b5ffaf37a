"""The colours of the pages can be read, in both themes."""

from __future__ import annotations

import re
from importlib import resources

import pytest

CSS = (resources.files("penstock_ui.dashboard") / "static" / "dashboard.css").read_text(encoding="utf-8")
BLOCKS = re.findall(r"\{[^{}]*--page:[^{}]*\}", CSS)
LIGHT, DARK, DARK_BY_SYSTEM = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in BLOCKS)


def luminance(color: str) -> float:
    parts = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_contrasts_with_every_ground(theme: dict[str, str]) -> None:
    for text in ("ink", "muted", "link", "good", "warning", "bad"):
        for ground in ("page", "surface", "raised"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    for level in ("good", "warning", "bad", "unknown"):
        assert contrast(theme[level], theme[f"{level}-wash"]) >= 4.5, level


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_of_charts_contrast_with_their_ground(theme: dict[str, str]) -> None:
    for line in ("data", "delay", "mark", "bad"):
        assert contrast(theme[line], theme["surface"]) >= 3, line


def test_the_switch_and_the_system_choose_the_same_dark() -> None:
    assert DARK == DARK_BY_SYSTEM


def test_styles_and_scripts_name_no_other_address() -> None:
    script = (resources.files("penstock_ui.dashboard") / "static" / "dashboard.js").read_text(encoding="utf-8")
    for text in (CSS, script):
        assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)
