"""Draws docs/demo.svg and docs/demo.txt from a run of the demonstration: `python plugins/cli/tests/draw_demo.py`."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

from penstock_cli import demo
from penstock_cli.demo_view import BatchTable, Lines, summary
from penstock_cli.java import ensure_java

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    ensure_java()
    with Lines() as screen:
        # The command draws the same batches on the terminal, and cannot return them.
        batches = list(demo._batches(screen, 10, 1.0, ("synthetic", {"rate": 10_000, "shape": "lines"}), verbose=False))
    console = Console(
        record=True, file=StringIO(), force_terminal=True, width=82, markup=False, highlight=False, _environ={}
    )
    console.print("$ penstock demo\n")
    console.print(BatchTable(batches))
    console.print(f"\n{summary(batches)}")
    DOCS.mkdir(exist_ok=True)
    text = "\n".join(line.rstrip() for line in console.export_text(clear=False).splitlines())
    (DOCS / "demo.txt").write_text(f"{text}\n", encoding="utf-8")
    drawing = console.export_svg(title="penstock", unique_id="demo")
    # The reader's own monospaced font will do; none is fetched.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL)
    (DOCS / "demo.svg").write_text(drawing, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
