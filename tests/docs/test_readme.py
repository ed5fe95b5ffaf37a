"""The README: its program is the example's, and its requirements are those of the distributions."""

from __future__ import annotations

import re
import tomllib
from itertools import takewhile

from benchmarks.comparison import Outcome, ratios
from tests.docs.pages import ROOT, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")


def project(folder: str) -> dict[str, str]:
    """What a distribution says about itself."""
    found: dict[str, str] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_programs_are_those_of_the_examples() -> None:
    broker, program, *_ = [block.text for block in blocks("README.md") if block.language == "python"]
    assert broker in (ROOT / "examples" / "rabbitmq_orders.py").read_text(encoding="utf-8")
    _docstring, _, code = (ROOT / "examples" / "custom_receiver.py").read_text(encoding="utf-8").partition('"""\n\n')
    assert program == code


def test_two_commands_stand_in_the_first_block() -> None:
    first, *_ = blocks("README.md")
    assert [line.split("#")[0].strip() for line in first.text.splitlines()] == ["make demo", "make test"]
    assert README[: README.index("make demo")].count("\n") < 20
    assert README.index("make test") < README.index("pip install")


def test_receiver_and_dataframe_are_short() -> None:
    _broker, receiver, frame = [block.text for block in blocks("README.md") if block.language == "python"]
    statements = [line for line in receiver.splitlines() if line.strip() and not re.match(r"import|from", line)]
    assert len(statements) <= 12
    assert len(frame.splitlines()) <= 5


def test_requirements_are_those_of_the_distributions() -> None:
    core = project("core")
    python, spark = core["requires-python"].removeprefix(">="), ["".join(core["dependencies"])]
    assert f"| Python | {python} or newer |" in README
    assert f"| PySpark | {re.findall(r'pyspark>=([0-9.]+)', spark[0])[0]} or newer;" in README
    assert f"version {core.get('version', '')}" in README


def ratio(row: str, ours: str, other: str, metric: str) -> float:
    """The median ratio of two engines in the benchmarks."""
    outcome = Outcome.load(ROOT / "docs" / "benchmarks" / f"{row}.json")
    cells = outcome.cell(ours), outcome.cell(other)
    assert cells[0]
    assert cells[1]
    spread = ratios(cells[0], cells[1], metric)
    assert spread
    return spread.median


def test_figures_are_those_of_the_benchmarks_and_of_the_fault_lab() -> None:
    rows = ratio("wordcount-0", "penstock", "pyspark-unix", "records_per_s")
    frames = ratio("wordcount-0", "penstock-dataframe", "pyspark-unix", "records_per_s")
    arrow = ratio("wordcount-0", "penstock-arrow", "pyspark-unix", "records_per_s")
    text = f"| {rows:.1f} times as fast with functions of rows, {frames:.1f} times with DataFrames, {arrow:.1f} times"
    assert f"{text} with Arrow:" in README
    processing = ratio("latency-1", "penstock", "bare-spark", "processing_p50_ms")
    assert f"| {processing:.2f} times as long:" in README
    lines = (ROOT / "docs" / "leases.md").read_text(encoding="utf-8").splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| broker | minutes |"))
    names = lines[head].split(" | ")
    runs = [dict(zip(names, line.split(" | "), strict=True)) for line in takewhile(bool, lines[head + 2 :])]
    acknowledged, lost = (sum(int(run[name].replace(",", "")) for run in runs) for name in ("acknowledged", "lost"))
    number = {5: "five", 6: "six"}[len({run["| broker"] for run in runs})]
    assert f"| messages acknowledged to {number} brokers while" in README
    assert f"| {acknowledged:,}, of which {lost} were lost:" in README


def test_every_distribution_is_listed() -> None:
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        folder = path.parent
        assert (
            f"| [`plugins/{folder.name}/`](plugins/{folder.name}/README.md) | `{project(str(folder))['name']}` |"
            in README
        )
