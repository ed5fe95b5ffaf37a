"""The receivers of this distribution pass the conformance checks."""

from __future__ import annotations

from penstock_http.conformance import SseSuite, WebhookSuite, WebSocketSuite


class TestWebhook(WebhookSuite):
    pass


class TestWebSocket(WebSocketSuite):
    pass


class TestSse(SseSuite):
    pass
