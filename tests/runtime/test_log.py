"""Logging: silent below a level, and nobody else's logging is touched."""

import logging
from collections.abc import Iterator

import pytest

from penstock.runtime.log import get_logger, set_level


@pytest.fixture(autouse=True)
def penstocks_logger() -> Iterator[logging.Logger]:
    """Left as it was found."""
    logger = logging.getLogger("penstock")
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_a_record_names_its_component_and_carries_what_is_bound(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test_part").bind(stream_id=3).warning("something happened", batch_time=1000)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("penstock.test_part", "WARNING")
    for part in ("something happened", "stream_id=3", "batch_time=1000"):
        assert part in record.getMessage()


def test_an_exception_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("the reason")
    except ValueError:
        get_logger("test_part").exception("it failed")
    assert "ValueError: the reason" in caplog.text


def test_a_percent_sign_is_only_that(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("test_part").warning("100 %s done", path="%d")
    assert "100 %s done" in caplog.text
    assert "%d" in caplog.text


@pytest.mark.parametrize(("level", "heard"), [("DEBUG", 3), ("INFO", 2), ("WARNING", 1), ("ERROR", 0)])
def test_below_the_level_it_is_silent(level: str, heard: int, caplog: pytest.LogCaptureFixture) -> None:
    set_level(level)
    log = get_logger(f"test_{level}")
    log.debug("d")
    log.info("i")
    log.warning("w")
    assert len(caplog.records) == heard


def test_the_programs_own_logging_stays_as_it_is(penstocks_logger: logging.Logger) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    for level in ("DEBUG", "INFO", "DEBUG"):
        set_level(level)
    assert (root.level, root.handlers) == before
    # The root logger has pytest's handlers: there is a way out already.
    assert penstocks_logger.handlers == []


def test_without_any_handler_lower_levels_have_one_way_out(
    penstocks_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    set_level("WARNING")
    assert penstocks_logger.handlers == []
    for level in ("INFO", "DEBUG", "INFO"):
        set_level(level)
    assert len(penstocks_logger.handlers) == 1


def test_who_configures_logging_later_has_each_line_once(
    monkeypatch: pytest.MonkeyPatch, penstocks_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    penstocks_logger.handlers.clear()
    set_level("INFO")
    get_logger("test_part").info("before")
    # As Py4J does with its first error.
    logging.basicConfig(level=logging.INFO)
    get_logger("test_part").info("behind")
    said = capsys.readouterr().err
    assert (said.count("before"), said.count("behind")) == (1, 1)
