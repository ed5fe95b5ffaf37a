"""Names of streams and applications that break what assumes short ASCII text."""

from __future__ import annotations

#: By what is odd about them.
ODD_NAMES = {
    "long": "n" * 10_000,
    "long and wide": "\u6570" * 10_000,
    "right to left": "\u05e9\u05dc\u05d5\u05dd 12 \u0642\u0627\u0626\u0645\u0629",
    "reversed": "\u202egnp.exe",
    "emoji": "\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "combining": "e" + "\u0301" * 300,
    "lone surrogates": "caf\udce9\ud800",
    "control": "a\0b\x1b[31mred\x07\tc\r\nd\x7f\x85\u2028e",
    "markup": "<b>&amp;[red]{{7*7}}\"'`\\n",
    "path": "../../etc/passwd",
    "blank": " ",
}
