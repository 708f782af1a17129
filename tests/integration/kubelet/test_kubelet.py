"""A kubelet with real processes: a pod's way on its node."""

import os
import signal

import pytest
from drumline.api.v1.pod_pb2 import PHASE_RUNNING, PHASE_TERMINATED, Pod
from drumline.model.errors import UnavailableError

from tests.integration.kubelet.conftest import Cluster, Kubelet
from tests.integration.kubelet.helpers import (
    alive,
    make_pod,
    pid_in,
    processes_of,
    program_of,
    shell,
    until,
)


async def ended(cluster: Cluster, pod: Pod) -> None:
    await until(lambda: any(s.phase == PHASE_TERMINATED for s in cluster.fake.history(pod)))


async def running(cluster: Cluster, *pods: Pod) -> None:
    await until(lambda: all("STARTED" in cluster.fake.reasons(pod) for pod in pods))


async def test_a_pod_runs_and_ends(cluster: Cluster, kubelet: Kubelet) -> None:
    good, bad = make_pod(["true"]), make_pod(shell("exit 3"), ["true"])
    cluster.fake.assign(good, bad)
    await ended(cluster, good)
    await ended(cluster, bad)
    last = cluster.fake.history(good)[-1]
    assert last.reason == "COMPLETED"
    assert last.attempt == 1
    assert last.start_time.ToNanoseconds() <= last.finish_time.ToNanoseconds()
    assert last.containers[0].exit_code == 0
    last = cluster.fake.history(bad)[-1]
    assert (last.reason, last.message) == ("FAILED", "container c0 ended with exit code 3")
    assert [c.exit_code for c in last.containers] == [3, 0]
    assert [c.name for c in last.containers] == ["c0", "c1"]


async def test_a_running_pod_says_by_which_process(cluster: Cluster, kubelet: Kubelet) -> None:
    pod = make_pod(["sleep", "999"])
    cluster.fake.assign(pod)
    await running(cluster, pod)
    status = cluster.fake.history(pod)[-1]
    assert status.phase == PHASE_RUNNING
    assert program_of(status.containers[0].runtime_id) == [b"sleep", b"999"]


async def test_what_cannot_start_says_why(cluster: Cluster, kubelet: Kubelet) -> None:
    pod = make_pod(["/no/such/program"])
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    status = cluster.fake.history(pod)[-1]
    assert status.reason == "START_FAILED"
    assert "cannot run /no/such/program: No such file or directory" in status.message


async def test_an_image_is_refused(cluster: Cluster, kubelet: Kubelet) -> None:
    pod = make_pod(["true"])
    pod.spec.containers[0].image = "busybox"
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    assert cluster.fake.reasons(pod) == ["REJECTED"]


async def test_a_deleted_pod_ends_within_its_grace(cluster: Cluster, kubelet: Kubelet) -> None:
    note = kubelet.state_dir / "note"
    pod = make_pod(shell(f"trap '' TERM; sleep 999 & echo $! > {note}; wait; sleep 999"))
    cluster.fake.assign(pod)
    await running(cluster, pod)
    await until(lambda: pid_in(note))
    cluster.fake.delete(pod, 1)
    await ended(cluster, pod)
    status = cluster.fake.history(pod)[-1]
    assert status.reason == "DELETED"
    assert "processes were still there after the grace period of 1 s" in status.message
    assert not processes_of(pod)
    await until(lambda: not (kubelet.state_dir / "pods" / pod.metadata.uid).exists())


async def test_deleting_again_with_less_grace_ends_it_at_once(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pod = make_pod(shell("trap '' TERM; while :; do sleep 1; done"))
    cluster.fake.assign(pod)
    await running(cluster, pod)
    cluster.fake.delete(pod, 3600)
    cluster.fake.delete(pod, 0)
    await ended(cluster, pod)


async def test_a_pod_that_is_deleted_before_it_starts_never_does(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pod = make_pod(["sleep", "999"])
    pod.metadata.delete_time.GetCurrentTime()
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    assert cluster.fake.reasons(pod) == ["DELETED"]
    assert not (kubelet.state_dir / "pods" / pod.metadata.uid).exists()


async def test_a_pod_that_is_taken_away_is_stopped_and_not_reported(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pod = make_pod(["sleep", "999"])
    cluster.fake.assign(pod)
    await running(cluster, pod)
    cluster.fake.release(pod)
    await until(lambda: not processes_of(pod))
    assert cluster.fake.reasons(pod) == ["STARTED"]


async def test_field_report_5_an_absurd_pod_takes_nothing(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    absurd, small = make_pod(["true"], cpu=10**15), make_pod(["true"], cpu=20)
    cluster.fake.assign(absurd, small)
    await ended(cluster, absurd)
    await ended(cluster, small)
    status = cluster.fake.history(absurd)[-1]
    assert status.reason == "REJECTED"
    assert "less than 1000000000000 cpu is free" in status.message
    assert cluster.fake.reasons(small)[-1] == "COMPLETED"


async def test_field_report_4_room_is_free_when_the_pod_is_gone(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    # One fills the node and takes its time to go; the next is assigned as soon as
    # its end is reported, and none is ever turned away.
    script = "trap 'sleep 0.1; exit 0' TERM; sleep 0.05; kill $$; wait"
    for _ in range(10):
        pod = make_pod(shell(script), cpu=4000)
        cluster.fake.assign(pod)
        await ended(cluster, pod)
        assert not processes_of(pod)
        assert cluster.fake.reasons(pod)[-1] == "COMPLETED"


async def test_field_report_30_a_kubelet_that_is_killed_again_and_again_forgets_nothing(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    stay = [make_pod(["sleep", "999"]) for _ in range(20)]
    gone = [make_pod(shell("exit 7")) for _ in range(20)]
    cluster.fake.assign(*stay, *gone)
    await running(cluster, *stay)
    for pod in gone:
        await ended(cluster, pod)
    before = {pod.metadata.uid: list(cluster.fake.history(pod)) for pod in stay}
    for _ in range(20):
        seen = len(cluster.fake.beats)
        await kubelet.stop(signal.SIGKILL)
        await kubelet.start()
        await until(lambda seen=seen: len(cluster.fake.beats) > seen)  # type: ignore[misc]
    last = make_pod(["true"])
    cluster.fake.assign(last)
    await ended(cluster, last)
    for pod in stay:
        status = before[pod.metadata.uid][-1]
        assert cluster.fake.history(pod) == before[pod.metadata.uid]
        assert program_of(status.containers[0].runtime_id) == [b"sleep", b"999"]
        assert len(processes_of(pod)) == 1
    for pod in gone:
        assert cluster.fake.reasons(pod)[-1] == "FAILED"
        assert not processes_of(pod)


async def test_an_end_while_no_kubelet_is_there_is_reported_later(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    go = kubelet.state_dir / "go"
    pod = make_pod(shell(f"while ! test -e {go}; do sleep 0.02; done; exit 9"))
    cluster.fake.assign(pod)
    await running(cluster, pod)
    await kubelet.stop(signal.SIGKILL)
    go.touch()
    await until(lambda: not processes_of(pod))
    await kubelet.start()
    await ended(cluster, pod)
    assert [c.exit_code for c in cluster.fake.history(pod)[-1].containers] == [9]


async def test_field_report_32_a_pod_deleted_after_a_restart_is_gone_whole(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    note = kubelet.state_dir / "note"
    pod = make_pod(shell(f"setsid sleep 999 & echo $! > {note}; trap '' TERM; sleep 999; wait"))
    cluster.fake.assign(pod)
    await running(cluster, pod)
    await until(lambda: pid_in(note))
    await kubelet.stop(signal.SIGKILL)
    cluster.fake.delete(pod, 1)
    await kubelet.start()
    await ended(cluster, pod)
    child = pid_in(note)
    assert child is not None
    assert not alive(child)
    assert not processes_of(pod)


async def test_what_was_taken_away_meanwhile_is_stopped_after_a_restart(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pod, other = make_pod(["sleep", "999"]), make_pod(["sleep", "999"])
    cluster.fake.assign(pod, other)
    await running(cluster, pod, other)
    await kubelet.stop(signal.SIGKILL)
    cluster.fake.release(pod)
    await kubelet.start()
    await until(lambda: not processes_of(pod))
    assert processes_of(other)


async def test_a_pod_of_which_nothing_is_left_is_reported_lost(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pod = make_pod(["sleep", "999"])
    pod.status.phase = PHASE_RUNNING
    pod.status.attempt = 1
    pod.status.report_sequence = 4
    cluster.fake.assign(pod)
    await ended(cluster, pod)
    status = cluster.fake.history(pod)[-1]
    assert (status.reason, status.report_sequence) == ("LOST_BY_NODE", 5)
    assert not processes_of(pod)


async def test_field_report_39_a_pod_of_a_taken_name_is_another_pod(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    old = make_pod(["sleep", "999"], name="same")
    cluster.fake.assign(old)
    await running(cluster, old)
    new = make_pod(["sleep", "999"], name="same")
    cluster.fake.assign(new)
    await running(cluster, new)
    cluster.fake.delete(old, 5)
    await ended(cluster, old)
    assert {r.pod.uid for batch in cluster.fake.batches for r in batch} == {
        old.metadata.uid,
        new.metadata.uid,
    }
    assert cluster.fake.reasons(new) == ["STARTED"]
    assert processes_of(new)


async def test_reports_are_repeated_until_they_are_answered(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    cluster.fake.report_error = UnavailableError("not now")
    pod = make_pod(["true"])
    cluster.fake.assign(pod)
    await until((kubelet.state_dir / "pods" / pod.metadata.uid / "state.json").exists)
    cluster.fake.report_error = None
    await ended(cluster, pod)


async def test_a_report_whose_answer_is_lost_does_no_harm(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    cluster.fake.lose_answers = True
    pod = make_pod(["sleep", "999"])
    cluster.fake.assign(pod)
    await running(cluster, pod)
    cluster.fake.lose_answers = False
    cluster.fake.delete(pod, 5)
    await ended(cluster, pod)
    assert cluster.fake.history(pod)[-1].reason == "DELETED"


async def test_e3_pods_that_start_together_are_reported_together(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pods = [make_pod(["sleep", "999"]) for _ in range(30)]
    cluster.fake.assign(*pods)
    await running(cluster, *pods)
    assert len(cluster.fake.batches) < 15


async def test_pods_run_on_while_the_apiserver_is_away(cluster: Cluster, kubelet: Kubelet) -> None:
    pod = make_pod(["sleep", "999"])
    cluster.fake.assign(pod)
    await running(cluster, pod)
    pids = processes_of(pod)
    for _ in range(3):
        cluster.fake.end_watches()
        late = make_pod(["true"])
        cluster.fake.assign(late)
        await ended(cluster, late)
    assert processes_of(pod) == pids
    assert cluster.fake.reasons(pod) == ["STARTED"]


async def test_a_kubelet_that_ends_leaves_its_pods(cluster: Cluster, kubelet: Kubelet) -> None:
    pod = make_pod(["sleep", "999"])
    cluster.fake.assign(pod)
    await running(cluster, pod)
    pids = processes_of(pod)
    assert await kubelet.stop() == 0
    assert processes_of(pod) == pids
    await kubelet.start()


async def test_a_kubelet_can_be_told_to_end_its_pods_with_it(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    await kubelet.stop()
    kubelet.flags.extend(["--stop-pods-at-exit", "true"])
    await kubelet.start()
    obeys = make_pod(["sleep", "999"])
    ignores = make_pod(shell("trap '' TERM; while :; do sleep 1; done"), grace=1)
    cluster.fake.assign(obeys, ignores)
    await running(cluster, obeys, ignores)
    assert await kubelet.stop() == 0
    for pod in (obeys, ignores):
        assert not processes_of(pod)
        assert cluster.fake.reasons(pod) == ["STARTED", "NODE_STOPPED"]
    await kubelet.start()


async def test_it_declares_what_the_node_has(cluster: Cluster, kubelet: Kubelet) -> None:
    await until(lambda: "n1" in cluster.fake.nodes)
    info = cluster.fake.nodes["n1"]
    assert info.capacity.cpu_millicores == 4000
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert info.capacity.memory_bytes == pytest.approx(pages, rel=0.01)
    assert info.allocatable == info.capacity
    assert dict(info.labels) == {"drumline.dev/hostname": "n1"}
    assert (info.runtime, info.runs_images) == ("process", False)


async def test_a_node_that_the_cluster_forgot_registers_again(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    await until(lambda: "n1" in cluster.fake.nodes)
    cluster.fake.nodes.clear()
    await until(lambda: "n1" in cluster.fake.nodes)


async def test_beats_come_as_often_as_asked_for(cluster: Cluster, kubelet: Kubelet) -> None:
    cluster.fake.interval = 0.02
    await until(lambda: len(cluster.fake.beats) > 10)
    assert cluster.fake.beat_streams == 1
    assert [b.sequence for b in cluster.fake.beats[:5]] == [1, 2, 3, 4, 5]
    assert cluster.fake.beats[0].nodes == ["n1"]


async def test_l3_a_silent_nodecontroller_is_redialled(cluster: Cluster, kubelet: Kubelet) -> None:
    await until(lambda: len(cluster.fake.beats) > 2)
    cluster.fake.mute_beats = True
    await until(lambda: cluster.fake.beat_streams > 1)
    cluster.fake.mute_beats = False
    seen = len(cluster.fake.beats)
    await until(lambda: len(cluster.fake.beats) > seen + 3)


async def test_field_report_28_starting_many_processes_disturbs_no_stream(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    cluster.fake.interval = 1.0
    await until(lambda: cluster.fake.beats)
    pods = [make_pod(["true"]) for _ in range(200)]
    cluster.fake.assign(*pods[:100])
    await until(lambda: not cluster.fake.pods)
    cluster.fake.assign(*pods[100:])
    await until(lambda: not cluster.fake.pods)
    assert {cluster.fake.reasons(pod)[-1] for pod in pods} == {"COMPLETED"}
    assert (cluster.fake.watches, cluster.fake.beat_streams) == (1, 1)


async def test_l5_a_hung_disk_delays_its_pod_and_nothing_else(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    await until(lambda: cluster.fake.beats)
    hung, other = make_pod(["true"]), make_pod(["true"])
    folder = kubelet.state_dir / "pods" / hung.metadata.uid
    folder.mkdir(parents=True)
    # Writing here waits for a reader, as long as it takes.
    os.mkfifo(folder / "pod.pb.new")
    cluster.fake.assign(hung, other)
    await ended(cluster, other)
    seen = len(cluster.fake.beats)
    await until(lambda: len(cluster.fake.beats) > seen + 3)
    assert cluster.fake.beat_streams == 1
    await until(lambda: [s.reason for s in cluster.fake.history(hung)] == ["STARTING"])
    reader = os.open(folder / "pod.pb.new", os.O_RDONLY | os.O_NONBLOCK)
    await ended(cluster, hung)
    os.close(reader)
    assert cluster.fake.reasons(hung)[-1] == "COMPLETED"


async def test_a_refused_registration_is_tried_again(cluster: Cluster, kubelet: Kubelet) -> None:
    await kubelet.stop()
    cluster.fake.nodes.clear()
    cluster.fake.registrations = 0
    cluster.fake.refusals = 2
    await kubelet.start()
    await until(lambda: "n1" in cluster.fake.nodes)
    assert cluster.fake.registrations == 3


async def test_a4_files_with_environments_are_their_owners_alone(
    cluster: Cluster, kubelet: Kubelet
) -> None:
    pod = make_pod(["sleep", "999"])
    pod.spec.containers[0].env.add(name="PASSWORD", value="secret")
    cluster.fake.assign(pod)
    await running(cluster, pod)
    folder = kubelet.state_dir / "pods" / pod.metadata.uid
    holding = [
        path for path in folder.iterdir() if path.is_file() and b"secret" in path.read_bytes()
    ]
    assert {path.name for path in holding} == {"pod.pb", "spec"}
    for path in (folder, *holding):
        assert path.stat().st_mode & 0o077 == 0
