"""Bytes that are no message of the contract are refused like any other wrong request."""

import logging
from typing import Any

import pytest
from drumline.api.v1 import (
    cluster_service_pb2,
    namespace_service_pb2,
    node_service_pb2,
    pod_service_pb2,
)
from drumline.internal.v1alpha1 import node_lifecycle_service_pb2
from drumline.model.errors import InvalidArgumentError
from drumline.node.v1 import node_agent_service_pb2
from drumline.scheduling.v1 import scheduler_service_pb2
from google.protobuf.descriptor import MethodDescriptor

from tests.support.apiservers import Api
from tests.support.calls import first_refusal, refusal

METHODS = [
    method
    for module in (
        cluster_service_pb2,
        namespace_service_pb2,
        node_agent_service_pb2,
        node_lifecycle_service_pb2,
        node_service_pb2,
        pod_service_pb2,
        scheduler_service_pb2,
    )
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x7fcut short"])
async def test_a5_a_request_that_cannot_be_decoded_is_refused_and_leaves_no_trace(
    api: Api, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for method in METHODS:
        refused = await _send(api, method, data)
        assert isinstance(refused, InvalidArgumentError), method.full_name
        assert method.input_type.full_name in refused.message
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_no_public_method_passes_over_a_field_that_is_not_known(api: Api) -> None:
    # Field 1000, a number: as a client of a later release would send it.
    public = [m for m in METHODS if m.full_name.startswith("drumline.api.")]
    for method in public:
        refused = await _send(api, method, b"\xc0\x3e\x01")
        assert isinstance(refused, InvalidArgumentError), method.full_name


async def _send(api: Api, method: MethodDescriptor, data: bytes) -> Exception:
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel: Any = api.channel()
    if method.server_streaming:
        return await first_refusal(channel.unary_stream(path)(data))
    return await refusal(channel.unary_unary(path)(data))
