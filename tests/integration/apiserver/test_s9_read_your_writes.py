"""S9: a read that names a version sees what was written up to it, through any replica."""

from typing import Any

from drumline.api.v1 import namespace_service_pb2 as namespaces_pb2
from drumline.api.v1 import node_service_pb2 as nodes_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import InvalidArgumentError, NotFoundError

from tests.support.apiservers import Api, pod
from tests.support.calls import cordon, get, get_node, make_namespaces, refusal


async def test_s9_every_write_answers_a_version_that_shows_it_through_the_other_replica(
    pair: list[Api],
) -> None:
    await pair[0].register_ready("sim-1")
    for turn in range(20):
        here, there = pair[turn % 2], pair[(turn + 1) % 2]
        name = f"p-{turn}"
        created = await here.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[pod(name)]))
        made = await get(there, name, version=created.resource_version)
        assert made.metadata.uid == created.results[0].pod.metadata.uid

        update = pods_pb2.PodUpdate(pod=made)
        update.pod.metadata.labels["turn"] = str(turn)
        update.pod.metadata.resource_version = ""
        update.update_mask.paths.append("metadata.labels")
        updated = await there.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[update]))
        listed = await here.pods.ListPods(
            pods_pb2.ListPodsRequest(min_resource_version=updated.resource_version)
        )
        assert [p.metadata.labels["turn"] for p in listed.pods] == [str(turn)]

        deleted = await here.pods.DeletePods(
            pods_pb2.DeletePodsRequest(pods=[{"name": name}])  # type: ignore[list-item]
        )
        gone = await refusal(_get(there, name, deleted.resource_version))
        assert isinstance(gone, NotFoundError)

        cordoned = await cordon(here, "sim-1", cordoned=turn % 2 == 0)
        node = await get_node(there, "sim-1", version=cordoned.resource_version)
        assert node.spec.unschedulable == (turn % 2 == 0)

        space = await make_namespaces(here, f"team-{turn}")
        there_now = await there.namespaces.ListNamespaces(
            namespaces_pb2.ListNamespacesRequest(min_resource_version=space.resource_version)
        )
        assert f"team-{turn}" in [n.metadata.name for n in there_now.namespaces]


async def _get(api: Api, name: str, version: str) -> Any:
    return await get(api, name, version=version)


async def test_s9_a_write_that_changed_nothing_names_no_version(api: Api) -> None:
    refused = await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[pod("UPPER")]))
    assert refused.results[0].status.code
    assert not refused.resource_version


async def test_s9_a_version_that_no_cluster_gave_out_is_refused_by_field(api: Api) -> None:
    for wrong in ("x", "7", "-", "abc-", "abc-1x", "a-1234567890123456789", "é-٣"):
        request = nodes_pb2.ListNodesRequest(min_resource_version=wrong)
        failure = await refusal(api.nodes.ListNodes(request))
        assert isinstance(failure, InvalidArgumentError), wrong
        assert [v.field for v in failure.violations] == ["min_resource_version"]
