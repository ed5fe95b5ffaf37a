"""Common parts of receivers for message brokers: secrets, TLS, columns, decoding, dead letters, servers for tests."""

from __future__ import annotations

from penstock_brokers.broker_server import BrokerServer, BrokerServerError, free_port
from penstock_brokers.broker_traffic import BrokerTraffic, BrokerWiretap
from penstock_brokers.columns import ColumnReader, columns_option
from penstock_brokers.dead_letters import DeadLetter, DeadLetterOptions
from penstock_brokers.decoding import ValueAs, check_json, decode, readable
from penstock_brokers.delivery_buffer import Delivery, DeliveryBuffer
from penstock_brokers.flow import is_far_from
from penstock_brokers.secret import Secret, SecretError, SecretText, secret_option
from penstock_brokers.tcp_proxy import TcpProxy, Wiretap
from penstock_brokers.tls import TlsOptions

__all__ = [
    "BrokerServer",
    "BrokerServerError",
    "BrokerTraffic",
    "BrokerWiretap",
    "ColumnReader",
    "DeadLetter",
    "DeadLetterOptions",
    "Delivery",
    "DeliveryBuffer",
    "Secret",
    "SecretError",
    "SecretText",
    "TcpProxy",
    "TlsOptions",
    "ValueAs",
    "Wiretap",
    "check_json",
    "columns_option",
    "decode",
    "free_port",
    "is_far_from",
    "readable",
    "secret_option",
]
