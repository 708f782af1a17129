"""Many pretended nodes in one process, over one connection."""

import signal

from drumline.api.v1.pod_pb2 import PHASE_TERMINATED, Pod
from drumline.kubelet.v1.kubelet_service_pb2 import StreamLogsRequest
from drumline.kubelet.v1.kubelet_service_pb2_grpc import KubeletServiceStub
from drumline.process.channels import channel

from tests.integration.kubelet.conftest import Certificates, Cluster, Kubelet
from tests.integration.kubelet.helpers import make_pod, until


def pod_for(number: int, **annotations: str) -> Pod:
    pod = make_pod(["true"], node=f"sim-{number % 100 + 1:04}")
    for name, value in annotations.items():
        key = "simulated.drumline.dev/" + name.replace("_", "-")
        pod.metadata.annotations[key] = value
    return pod


async def test_it_registers_beats_and_runs_for_all_its_nodes(
    cluster: Cluster, simulator: Kubelet
) -> None:
    await until(lambda: len(cluster.fake.nodes) == 100 and cluster.fake.beats)
    assert cluster.fake.registrations == 1
    assert len(cluster.fake.beats[0].nodes) == 100
    info = cluster.fake.nodes["sim-0042"]
    assert info.labels["drumline.dev/simulated"] == "true"
    assert info.labels["drumline.dev/hostname"] == "sim-0042"
    assert info.runtime == "simulated"
    pods = [pod_for(n) for n in range(1000)]
    cluster.fake.assign(*pods)
    await until(lambda: all(cluster.fake.reasons(pod) == ["STARTED"] for pod in pods))
    assert len(cluster.fake.batches) < 50
    for pod in pods:
        cluster.fake.delete(pod)
    await until(lambda: not cluster.fake.pods)
    assert all(cluster.fake.reasons(pod)[-1] == "DELETED" for pod in pods)


async def test_annotations_say_what_becomes_of_a_pod(cluster: Cluster, simulator: Kubelet) -> None:
    pod = pod_for(1, start_delay="50ms", run_time="100ms", exit_code="3")
    cluster.fake.assign(pod)
    await until(lambda: any(s.phase == PHASE_TERMINATED for s in cluster.fake.history(pod)))
    status = cluster.fake.history(pod)[-1]
    assert (status.reason, status.containers[0].exit_code) == ("FAILED", 3)
    ran = status.finish_time.ToNanoseconds() - status.start_time.ToNanoseconds()
    assert ran >= 90_000_000


async def test_each_node_has_room_of_its_own(cluster: Cluster, simulator: Kubelet) -> None:
    large = make_pod(["true"], node="sim-0001", cpu=30_000)
    larger = make_pod(["true"], node="sim-0001", cpu=3_000)
    other = make_pod(["true"], node="sim-0002", cpu=3_000)
    cluster.fake.assign(large, larger, other)
    await until(lambda: all(map(cluster.fake.history, (large, larger, other))))
    assert cluster.fake.reasons(large) == ["STARTED"]
    assert cluster.fake.reasons(larger) == ["REJECTED"]
    assert cluster.fake.reasons(other) == ["STARTED"]


async def test_a_start_that_takes_its_time_is_reported(
    cluster: Cluster, simulator: Kubelet
) -> None:
    pod = pod_for(1, start_delay="1h")
    cluster.fake.assign(pod)
    await until(lambda: cluster.fake.history(pod))
    status = cluster.fake.history(pod)[-1]
    assert (status.reason, status.waiting_on) == ("STARTING", "kubelet:sim-0002")


async def test_pods_go_on_under_the_next_simulator(cluster: Cluster, simulator: Kubelet) -> None:
    pod = pod_for(1)
    cluster.fake.assign(pod)
    await until(lambda: cluster.fake.reasons(pod) == ["STARTED"])
    await simulator.stop(signal.SIGKILL)
    await simulator.start()
    late = pod_for(2)
    cluster.fake.assign(late)
    await until(lambda: cluster.fake.reasons(late) == ["STARTED"])
    assert cluster.fake.reasons(pod) == ["STARTED"]
    cluster.fake.delete(pod)
    await until(lambda: cluster.fake.reasons(pod)[-1] == "DELETED")


async def test_pretended_pods_tell_their_life(
    cluster: Cluster, certificates: Certificates, simulator: Kubelet
) -> None:
    pod = pod_for(1, run_time="1ms")
    cluster.fake.assign(pod)
    await until(lambda: any(s.phase == PHASE_TERMINATED for s in cluster.fake.history(pod)))
    address = cluster.fake.nodes["sim-0002"].address
    async with channel(address, certificates("apiserver")) as made:
        call = KubeletServiceStub(made).StreamLogs(StreamLogsRequest(pod_uid=pod.metadata.uid))
        lines = b"".join([part.data async for part in call]).splitlines()
    assert lines[0].startswith(b"simulated: started ")
    assert lines[1].endswith(b"exit code 0")
