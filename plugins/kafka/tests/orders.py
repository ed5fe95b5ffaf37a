"""A Protobuf class, as protoc would generate it."""

from __future__ import annotations

import importlib
from typing import Any

descriptor_pb2, descriptor_pool, message_factory = (
    importlib.import_module(f"google.protobuf.{name}")  # without types
    for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
)
FILE: Any = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
_message = FILE.message_type.add(name="Order")
_message.field.add(name="city", number=1, type=9, label=1)
_pool = descriptor_pool.DescriptorPool()
_pool.Add(FILE)
Order: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName("shop.Order"))
