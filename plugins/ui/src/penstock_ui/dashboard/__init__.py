"""The dashboard: Bokeh pages that render a snapshot, of a running application or of a history."""

from penstock_ui.dashboard.pages import dashboard

__all__ = ["dashboard"]
