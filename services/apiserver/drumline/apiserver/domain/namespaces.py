"""Steps on namespaces: create, delete."""

from collections.abc import Callable

from drumline.api.v1 import metadata_pb2
from drumline.apiserver.store.kinds import NAMESPACES, QUOTA_USES
from drumline.apiserver.store.view import View
from drumline.model.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError
from drumline.model.names import DEFAULT_NAMESPACE
from drumline.storage.v1 import records_pb2
from google.protobuf.timestamp_pb2 import Timestamp


def not_found(name: str) -> NotFoundError:
    """Give the error for a namespace that is not there."""
    return NotFoundError(f'there is no namespace "{name}"', reason="NAMESPACE_NOT_FOUND")


def create(metadata: metadata_pb2.ObjectMeta, uid: str, now: Timestamp) -> Callable[[View], None]:
    """Store a namespace that is validated; nothing when the same request has stored it before."""
    record = records_pb2.NamespaceRecord(metadata=metadata)
    record.metadata.uid = uid
    record.metadata.create_time.CopyFrom(now)

    def step(view: View) -> None:
        there = view.get(NAMESPACES, metadata.name)
        if there is None:
            view.put(NAMESPACES, metadata.name, record)
        elif not metadata.request_id or there.metadata.request_id != metadata.request_id:
            raise AlreadyExistsError(
                f'there is a namespace "{metadata.name}" already', reason="NAMESPACE_EXISTS"
            )

    return step


def delete(name: str) -> Callable[[View], None]:
    """Remove a namespace that holds no pods. The default one stays."""

    def step(view: View) -> None:
        if view.get(NAMESPACES, name) is None:
            raise not_found(name)
        if name == DEFAULT_NAMESPACE:
            raise FailedPreconditionError(
                f'namespace "{name}" is part of every cluster and stays',
                reason="NAMESPACE_PROTECTED",
            )
        use = view.get(QUOTA_USES, name)
        if use is not None and use.usage.stored_pods:
            raise FailedPreconditionError(
                f'namespace "{name}" holds {use.usage.stored_pods} pod(s); delete them first',
                reason="NAMESPACE_NOT_EMPTY",
            )
        view.delete(NAMESPACES, name)
        view.delete(QUOTA_USES, name)

    return step
