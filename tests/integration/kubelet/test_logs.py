"""What a kubelet answers to the apiserver, and to nobody else."""

import contextlib
from collections.abc import AsyncIterator

import grpc
import pytest
from drumline.api.v1.pod_pb2 import PHASE_TERMINATED, Pod
from drumline.kubelet.v1.kubelet_service_pb2 import ListPodsRequest, StreamLogsRequest
from drumline.kubelet.v1.kubelet_service_pb2_grpc import KubeletServiceStub
from drumline.model.errors import DrumlineError, from_rpc_error
from drumline.process.channels import channel

from tests.integration.kubelet.conftest import Certificates, Cluster, Kubelet
from tests.integration.kubelet.helpers import make_pod, shell, until


@contextlib.asynccontextmanager
async def calling(
    cluster: Cluster, certificates: Certificates, node: str = "n1", caller: str = "apiserver"
) -> AsyncIterator[grpc.aio.Channel]:
    """Connect to a node's kubelet at the address that it has declared."""
    await until(lambda: node in cluster.fake.nodes)
    async with channel(cluster.fake.nodes[node].address, certificates(caller)) as made:
        yield made


async def pieces(made: grpc.aio.Channel, pod: Pod, **asked: object) -> list[bytes]:
    request = StreamLogsRequest(pod_uid=pod.metadata.uid)
    for name, value in asked.items():
        setattr(request.logs, name, value)
    return [part.data async for part in KubeletServiceStub(made).StreamLogs(request)]


async def refusal(made: grpc.aio.Channel, pod: Pod, **asked: object) -> DrumlineError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await pieces(made, pod, **asked)
    return from_rpc_error(caught.value)


async def ended(cluster: Cluster, pod: Pod) -> None:
    await until(lambda: any(s.phase == PHASE_TERMINATED for s in cluster.fake.history(pod)))


async def test_output_of_an_ended_pod_stays_readable(
    cluster: Cluster, certificates: Certificates, kubelet: Kubelet
) -> None:
    pod = make_pod(shell("echo one; echo two"), shell(r"printf '\377\000'"))
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    for _ in range(2):
        async with calling(cluster, certificates) as made:
            assert b"".join(await pieces(made, pod, container="c0")) == b"one\ntwo\n"
            assert b"".join(await pieces(made, pod, container="c0", tail_lines=1)) == b"two\n"
            assert b"".join(await pieces(made, pod, container="c1")) == b"\xff\x00"
        # It stays so over a restart, too.
        cluster.fake.nodes.clear()
        await kubelet.stop()
        await kubelet.start()


async def test_large_output_comes_in_pieces(
    cluster: Cluster, certificates: Certificates, kubelet: Kubelet
) -> None:
    pod = make_pod(shell("head -c 1000000 /dev/zero"))
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    async with calling(cluster, certificates) as made:
        parts = await pieces(made, pod)
    assert sum(map(len, parts)) == 1_000_000
    assert max(map(len, parts)) <= 256 << 10


async def test_output_is_followed(
    cluster: Cluster, certificates: Certificates, kubelet: Kubelet
) -> None:
    go = kubelet.state_dir / "go"
    pod = make_pod(shell(f"echo first; while ! test -e {go}; do sleep 0.02; done; echo last"))
    cluster.fake.assign(pod)
    await until(lambda: cluster.fake.reasons(pod))
    async with calling(cluster, certificates) as made:
        request = StreamLogsRequest(pod_uid=pod.metadata.uid)
        request.logs.follow = True
        parts = aiter(KubeletServiceStub(made).StreamLogs(request))
        assert (await anext(parts)).data == b"first\n"
        go.touch()
        assert [part.data async for part in parts] == [b"last\n"]


async def test_what_is_not_there_is_refused(
    cluster: Cluster, certificates: Certificates, kubelet: Kubelet
) -> None:
    pod = make_pod(["true"], ["true"])
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    async with calling(cluster, certificates) as made:
        assert (await refusal(made, make_pod())).reason == "POD_NOT_FOUND"
        assert (await refusal(made, pod, container="c9")).reason == "CONTAINER_NOT_FOUND"
        unnamed = await refusal(made, pod)
        assert [v.field for v in unnamed.violations] == ["container"]
        negative = await refusal(made, pod, container="c0", tail_lines=-1)
        assert [v.field for v in negative.violations] == ["tail_lines"]


async def test_pods_are_listed_as_the_node_knows_them(
    cluster: Cluster, certificates: Certificates, kubelet: Kubelet
) -> None:
    second, first = make_pod(["sleep", "999"], name="b"), make_pod(["sleep", "999"], name="a")
    cluster.fake.assign(second, first)
    await until(lambda: cluster.fake.reasons(first) and cluster.fake.reasons(second))
    async with calling(cluster, certificates) as made:
        listed = (await KubeletServiceStub(made).ListPods(ListPodsRequest())).pods
    assert [pod.metadata.uid for pod in listed] == [first.metadata.uid, second.metadata.uid]
    assert listed[0].status == cluster.fake.history(first)[-1]


async def test_a2_only_the_apiserver_is_answered(
    cluster: Cluster, certificates: Certificates, kubelet: Kubelet
) -> None:
    pod = make_pod(["true"])
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    for caller in ("admin", "n1"):
        async with calling(cluster, certificates, caller=caller) as made:
            assert (await refusal(made, pod)).reason == "PERMISSION_DENIED"
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await KubeletServiceStub(made).ListPods(ListPodsRequest())
            assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
