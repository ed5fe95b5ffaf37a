"""Receivers for the web: requests of webhooks, messages of WebSockets, and server-sent events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock import Receiver, ReceiverSpec, hookimpl
from penstock_http.options import SseOptions, WebhookOptions, WebSocketOptions

__all__ = ["SseOptions", "WebSocketOptions", "WebhookOptions", "receivers"]


# They import aiohttp, which a program that only lists plugins does not need.
def _webhook(options: WebhookOptions) -> Receiver[Any]:
    from penstock_http.webhook_receiver import WebhookReceiver

    return WebhookReceiver(options)


def _websocket(options: WebSocketOptions) -> Receiver[Any]:
    from penstock_http.websocket_receiver import WebSocketReceiver

    return WebSocketReceiver(options)


def _sse(options: SseOptions) -> Receiver[Any]:
    from penstock_http.sse_receiver import SseReceiver

    return SseReceiver(options)


@hookimpl
def receivers() -> Iterable[ReceiverSpec]:
    """Offer the receivers ``webhook``, ``websocket`` and ``sse``."""
    return (
        ReceiverSpec("webhook", _webhook, WebhookOptions, "HTTP requests, answered once their records are stored"),
        ReceiverSpec("websocket", _websocket, WebSocketOptions, "messages of a WebSocket"),
        ReceiverSpec("sse", _sse, SseOptions, "server-sent events, continued after the last stored one"),
    )
