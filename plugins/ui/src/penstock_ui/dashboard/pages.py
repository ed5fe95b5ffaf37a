"""The pages, their parts and charts, and the updates of an open page.

A page is HTML from templates, complete before any script runs. An open page is a Bokeh session. Once a second it
renders its parts again and sends the changed ones, and its charts send the new points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import bokeh
from attrs import field, frozen
from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.core.properties import Bool, Dict, String
from bokeh.document import Document
from bokeh.model import DataModel
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from penstock.spi import printable
from penstock_ui.dashboard import units, views
from penstock_ui.dashboard.charts import Charts, OverviewCharts, RateCharts
from penstock_ui.dashboard.measures import measures
from penstock_ui.dashboard.page_server import PageServer
from penstock_ui.dashboard.query import Query
from penstock_ui.dashboard.triage import triage
from penstock_ui.snapshot import Snapshot, Source, error_line

_UPDATE_MS = 1000
_MEASURES = ("rate", "scheduling", "processing", "total")


@frozen
class Page:
    """One page.

    Attributes:
        path: its address; pages link to each other relatively, so all are in one folder.
        name: its name in the navigation; empty for a page that only other pages link to.
        title: title of the browser window, before the application's name.
        template: the template of the whole page.
        parts: names of the templates in `templates/parts` that are rendered again on every update.
        view: computes the variables of the templates.
        charts: makes its charts; ``None`` when it has none.
    """

    path: str
    name: str
    title: str
    template: str
    parts: Sequence[str]
    view: Callable[[Snapshot, Query, int], dict[str, Any]]
    charts: Callable[[Snapshot, Query], Charts | None] = field(default=lambda snapshot, query: None)


def _charts_of_stream(snapshot: Snapshot, query: Query) -> Charts | None:
    is_retained = query.id is not None and snapshot.stream(query.id) is not None
    return RateCharts(snapshot, query.id) if is_retained else None


PAGES = (
    Page(
        "/",
        "Overview",
        "Streaming Statistics",
        "overview.html",
        ("verdict", "timelines", *(f"measure-{name}" for name in _MEASURES), "inputs", "latest-batches", "storage"),
        views.overview,
        lambda snapshot, query: OverviewCharts(snapshot),
    ),
    Page(
        "/triage",
        "Triage",
        "Triage",
        "triage.html",
        ("causes", "gantt", "failed-batches", "top-receivers", "top-outputs", "top-batches"),
        triage,
    ),
    Page("/streams", "Streams", "Streams", "streams.html", ("stream-list",), views.streams),
    Page(
        "/stream", "", "Stream", "stream.html", ("stream-details", "reasons", "errors"), views.stream, _charts_of_stream
    ),
    Page("/batches", "Batches", "Batches", "batches.html", ("batch-list",), views.batches),
    Page("/batch", "", "Batch", "batch.html", ("batch-details",), views.batch),
    Page(
        "/rate",
        "Rates",
        "Rate control",
        "rate.html",
        ("rate-control", "limits"),
        views.rates,
        lambda snapshot, query: RateCharts(snapshot),
    ),
    Page("/graph", "Graph", "DStream graph", "graph.html", ("dstream-graph",), views.graph),
)


class PageUpdate(DataModel):
    """The changed parts of a page: HTML by name. The page sets ``is_ready`` when it can show them."""

    parts = Dict(String, String)
    is_ready = Bool(False)


def dashboard(source: Source) -> PageServer:
    """The Tornado application with every page.

    Args:
        source: the state; called from any thread.
    """
    return PageServer({page.path: Application(FunctionHandler(_opened(page, source))) for page in PAGES})


def _opened(page: Page, source: Source) -> Callable[[Document], None]:
    def open_page(document: Document) -> None:
        context: Any = document.session_context
        query = Query.of(context.request.arguments if context is not None and context.request else {})
        opened = OpenPage(page, query, source.snapshot())
        opened.attach(document)

        def update() -> None:
            session = None if context is None else context.session
            # The session of a closed page lives on for some seconds.
            if session is None or session.connection_count:
                opened.update(source.snapshot())

        if opened.is_live:
            document.add_periodic_callback(update, _UPDATE_MS)

    return open_page


class OpenPage:
    """A page in one browser.

    Args:
        page: the page to show.
        query: arguments of the page's address.
        snapshot: the first snapshot to show.
    """

    def __init__(self, page: Page, query: Query, snapshot: Snapshot) -> None:
        self._page = page
        self._query = query
        self._version = snapshot.version
        self._charts = page.charts(snapshot, query)
        self._update = PageUpdate(name="update")
        self.is_live = snapshot.is_live
        #: The parts that the browser shows now.
        self.parts = self._rendered(snapshot)
        self._snapshot = snapshot

    def attach(self, document: Document) -> None:
        """Put the page into a Bokeh document."""
        application = self._snapshot.application
        title = f"{self._page.title} - {application.name}" if application.name else self._page.title
        roots = [] if self._charts is None else list(self._charts.roots)
        for root in (*roots, self._update):
            document.add_root(root)
        document.title = title
        # dashboard.js reports a lost connection.
        document.config.update(notify_connection_status=False, reconnect_session=False)
        document.template = environment().get_template(self._page.template)
        document.template_variables.update(
            **_frame(self._snapshot),
            current=self._page.name,
            navigation=[(page.path.lstrip("/") or "./", page.name) for page in PAGES if page.name],
            parts=self.parts,
            measures=measures(application.batch_interval_ms),
            charts={str(root.name) for root in roots},
        )

    def update(self, snapshot: Snapshot) -> None:
        """Send the differences to a newer snapshot. A page that is not ready yet gets them all later."""
        if not self._update.is_ready:
            return
        if snapshot.version != self._version and self._charts is not None:
            self._charts.update(snapshot)
        self._version = snapshot.version
        if snapshot is self._snapshot and not snapshot.is_live:
            return
        parts = self._rendered(snapshot)
        self._snapshot = snapshot
        changed = {name: html for name, html in parts.items() if html != self.parts[name]}
        if changed:
            self.parts = parts
            self._update.update(parts=changed)

    def _rendered(self, snapshot: Snapshot) -> dict[str, str]:
        merged = 1 if self._charts is None else self._charts.merged
        return render_parts(self._page, snapshot, self._query, snapshot.time_ms, merged)


def render_parts(page: Page, snapshot: Snapshot, query: Query, now_ms: int, merged: int = 1) -> dict[str, str]:
    """Render the parts of a page.

    Args:
        page: the page to render.
        snapshot: the state to show.
        query: arguments of the page's address.
        now_ms: the current time; for a finished application, the time of its last event.
        merged: batches per point of the charts.

    Returns:
        HTML by the part's name.
    """
    context = {
        **page.view(snapshot, query, now_ms),
        "snapshot": snapshot,
        "query": query,
        "now": now_ms,
        "interval": snapshot.application.batch_interval_ms,
        "merged": merged,
        "spark_ui": _spark_ui(snapshot),
        "spark_batches": views.SPARK_BATCHES,
    }
    parts = {}
    for name in ("state", *page.parts):
        part, _, of_measure = name.partition("-") if name.startswith("measure-") else (name, "", "")
        if of_measure:
            measure = next(row for row in context["measures"] if row.name == of_measure)
            context |= {"measure": measure, "spread": context["spreads"].get(of_measure)}
        parts[name] = environment().get_template(f"parts/{part}.html").render(context)
    return parts


def _frame(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "snapshot": snapshot,
        "css": _asset("dashboard.css"),
        "js": _asset("dashboard.js"),
        "export_js": _asset("export.js"),
        "bokeh_version": bokeh.__version__,
        "zone": units.zone(),
        "spark_ui": _spark_ui(snapshot),
    }


@cache
def _asset(name: str) -> str:
    """The address of a file in `static`, which changes with its content: browsers may cache it."""
    content = (resources.files(__package__) / "static" / name).read_bytes()
    return f"assets/{name}?v={sha256(content).hexdigest()[:12]}"


class _PrintableTemplate(Template):
    """Renders text that UTF-8 can encode, whatever the program's names and errors are."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        return printable(super().render(*args, **kwargs))


@cache
def environment() -> Environment:
    """The template environment, which escapes every value."""
    templates = Environment(
        loader=PackageLoader("penstock_ui.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.template_class = _PrintableTemplate
    filters: Mapping[str, Callable[..., str]] = {
        "duration": units.duration,
        "count": units.count,
        "rate": units.rate,
        "bytes": units.size,
        "batch_time": units.batch_time,
        "clock": units.clock_time,
        "ago": units.ago,
        "plural": units.plural,
        "error_line": error_line,
    }
    templates.filters.update(filters)
    return templates


def _spark_ui(snapshot: Snapshot) -> str:
    """The address of Spark's UI; empty when it has ended with the application, and for a script or the like."""
    url = snapshot.application.spark_ui_url
    return url.rstrip("/") if snapshot.is_live and urlsplit(url).scheme in {"http", "https"} else ""
