"""NamespaceService."""

import asyncio
from pathlib import Path
from typing import Any

from drumline.api.v1 import namespace_service_pb2 as namespaces_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import NotFoundError, from_status

from tests.support.apiservers import Api, pod
from tests.support.calls import create, delete, make_namespaces, reasons, refusal
from tests.support.history import check_sums, revision
from tests.support.store import EtcdServer


async def remove(api: Api, *names: str) -> list[str]:
    request = namespaces_pb2.DeleteNamespacesRequest(names=names)
    return reasons((await api.namespaces.DeleteNamespaces(request)).results)


async def names(api: Api, **more: Any) -> list[str]:
    answer = await api.namespaces.ListNamespaces(namespaces_pb2.ListNamespacesRequest(**more))
    return [n.metadata.name for n in answer.namespaces]


async def test_the_default_namespace_is_there_once_whoever_starts_first(pair: list[Api]) -> None:
    for api in pair:
        assert await names(api) == ["default"]


async def test_namespaces_are_made_read_and_removed(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    wanted = namespaces_pb2.Namespace()
    wanted.metadata.name, wanted.metadata.request_id = "team", "once"
    wanted.metadata.labels["a"] = "b"
    request = namespaces_pb2.CreateNamespacesRequest(namespaces=[wanted])
    (made,) = (await api.namespaces.CreateNamespaces(request)).results
    assert made.namespace.metadata.uid
    got = await api.namespaces.GetNamespace(namespaces_pb2.GetNamespaceRequest(name="team"))
    assert got.namespace == made.namespace
    before = await revision(etcd, certs)
    (again,) = (await api.namespaces.CreateNamespaces(request)).results
    assert again.namespace == made.namespace
    answer = await make_namespaces(api, "team", "NO", "no.dots")
    assert reasons(answer.results) == ["NAMESPACE_EXISTS", "INVALID", "INVALID"]
    wrong = from_status(answer.results[2].status)
    assert [v.field for v in wrong.violations] == ["namespaces[2].metadata.name"]
    assert await revision(etcd, certs) == before
    assert await remove(api, "team", "none", "NO") == ["", "NAMESPACE_NOT_FOUND", "INVALID"]
    gone = namespaces_pb2.GetNamespaceRequest(name="team")
    assert isinstance(await refusal(api.namespaces.GetNamespace(gone)), NotFoundError)


async def test_a_namespace_with_pods_stays_also_when_they_come_through_another_apiserver(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    await make_namespaces(pair[0], *(f"n-{n}" for n in range(10)))
    for turn in range(10):
        space = f"n-{turn}"
        request = pods_pb2.CreatePodsRequest(pods=[pod("p", namespace=space)])
        answer, (removed,) = await asyncio.gather(
            pair[0].pods.CreatePods(request), remove(pair[1], space)
        )
        (created,) = reasons(answer.results)
        assert (created, removed) in {
            ("", "NAMESPACE_NOT_EMPTY"),
            ("NAMESPACE_NOT_FOUND", ""),
        }
    await check_sums(etcd, certs)


async def test_an_emptied_namespace_can_go(api: Api) -> None:
    await make_namespaces(api, "team")
    (made,) = await create(api, pod("p", namespace="team"))
    assert await remove(api, "team") == ["NAMESPACE_NOT_EMPTY"]
    await delete(api, made)
    assert await remove(api, "team") == [""]


async def test_namespaces_come_in_pages_of_one_version(pair: list[Api]) -> None:
    await make_namespaces(pair[0], *(f"n-{n}" for n in range(5)))
    request = namespaces_pb2.ListNamespacesRequest(page_size=3)
    first = await pair[0].namespaces.ListNamespaces(request)
    await remove(pair[0], "n-4")
    rest = await names(pair[1], page_size=9, page_token=first.next_page_token)
    assert [n.metadata.name for n in first.namespaces] + rest == [
        "default",
        *(f"n-{n}" for n in range(5)),
    ]
