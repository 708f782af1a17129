"""Writes objects of the API as `drumline.cli.manifest` reads them, for ``-o yaml`` and ``json``."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drumline.api.v1.resources_pb2 import Resources
from drumline.cli.forms import API_VERSIONS, enum_names, quantities
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp


def to_document(message: Message) -> dict[str, Any]:
    """Give a pod, node or namespace as a document: its kind, then all that is set in it."""
    return {"apiVersion": API_VERSIONS[-1], "kind": message.DESCRIPTOR.name, **_fields(message)}


def as_yaml(messages: Sequence[Message]) -> str:
    """Write objects as YAML, one document each."""
    return _yaml(list(map(to_document, messages)))


def _yaml(documents: Sequence[Any]) -> str:
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump_all(
        documents,
        Dumper=dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1000,
        explicit_start=len(documents) > 1,
    )


def document_as(form: str, document: Mapping[str, Any]) -> str:
    """Write a document as "yaml" or "json"."""
    if form == "yaml":
        return _yaml([document])
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_json(messages: Sequence[Message], *, single: bool) -> str:
    """Write objects as JSON: the object itself when a `single` one was asked for, else a List."""
    documents = [to_document(message) for message in messages]
    value = (
        documents[0]
        if single
        else {"apiVersion": API_VERSIONS[-1], "kind": "List", "items": documents}
    )
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _fields(message: Message) -> dict[str, Any]:
    return {spec.json_name: _value(spec, value) for spec, value in message.ListFields()}


def _value(spec: Any, value: Any) -> Any:
    if spec.message_type is not None and spec.message_type.GetOptions().map_entry:
        return {key: value[key] for key in sorted(value)}
    if spec.is_repeated:
        return [_one(spec, item) for item in value]
    return _one(spec, value)


def _one(spec: Any, value: Any) -> Any:
    if isinstance(value, Timestamp | Duration):
        return value.ToJsonString()
    if isinstance(value, Resources):
        return quantities(value)
    if isinstance(value, Message):
        return _fields(value)
    if spec.enum_type is not None:
        names = {number: name for name, number in enum_names(spec.enum_type).items()}
        return names.get(value, value)
    return value
