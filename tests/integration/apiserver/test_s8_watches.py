"""S8: what watches deliver, in which order, and what they say when they cannot go on."""

import asyncio
import random
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from aetcd.rpc import rpc_pb2
from drumline.api.v1 import metadata_pb2
from drumline.api.v1 import node_service_pb2 as nodes_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.apiserver.store.kinds import EPOCH_NAME, EPOCHS
from drumline.model.errors import FailedPreconditionError, OutOfRangeError

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    CHANGED,
    PENDING,
    REMOVED,
    RUNNING,
    TERMINATED,
    Follower,
    assign,
    cordon,
    create,
    delete,
    eventually,
    first_refusal,
    following,
    held_up,
    place,
    report,
    said,
    watch_pods,
)
from tests.support.history import store
from tests.support.store import EtcdServer

ESTABLISHED = metadata_pb2.WATCH_MARK_ESTABLISHED


async def label(api: Api, name: str, **labels: str) -> str:
    """Replace a pod's labels; give the version that shows it."""
    update = pods_pb2.PodUpdate()
    update.pod.metadata.name = name
    update.pod.metadata.labels.update(labels)
    update.update_mask.paths.append("metadata.labels")
    answer = await api.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[update]))
    assert not answer.results[0].status.code, answer
    version: str = answer.resource_version
    return version


def number(version: str) -> int:
    """Give the revision in a version, which only tests look into."""
    return int(version.rpartition("-")[2])


def check_order(events: Iterable[Any]) -> None:
    """Each uid's states come in order, none twice, and nothing after its removal."""
    newest: dict[str, int] = {}
    removed: set[str] = set()
    for event in events:
        uid, version = event.pod.metadata.uid, number(event.pod.metadata.resource_version)
        assert uid not in removed, f"{event.pod.metadata.name} after its removal"
        assert version > newest.get(uid, 0), f"{event.pod.metadata.name} again, or older"
        newest[uid] = version
        if event.type == REMOVED:
            removed.add(uid)


async def churn(api: Api, seed: int, turns: int) -> None:
    """Create, label and delete pods of a few names."""
    dice = random.Random(seed)
    for turn in range(turns):
        name = f"p-{seed}-{dice.randrange(5)}"
        await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[pod(name)]))
        if dice.random() < 0.7:
            await label(api, name, turn=str(turn))
        if dice.random() < 0.6:
            reference = metadata_pb2.PodReference(name=name)
            await api.pods.DeletePods(pods_pb2.DeletePodsRequest(pods=[reference]))


def state(follower: Follower) -> dict[str, Any]:
    """Give the pods that a reader of all these events holds."""
    held: dict[str, Any] = {}
    for event in follower.events:
        if event.type == CHANGED:
            held[event.pod.metadata.uid] = event.pod
        else:
            held.pop(event.pod.metadata.uid, None)
    return held


async def listed(api: Api) -> dict[str, Any]:
    """Give the pods that a list holds."""
    answer = await api.pods.ListPods(pods_pb2.ListPodsRequest(page_size=5000))
    return {p.metadata.uid: p for p in answer.pods}


async def test_s8_watchers_of_two_apiservers_end_with_what_is_there(pair: list[Api]) -> None:
    await create(pair[0], pod("before"))
    async with following(watch_pods(pair[0])) as first, following(watch_pods(pair[1])) as second:
        await first.until(lambda w: w.synced)
        await asyncio.gather(*(churn(pair[seed % 2], seed, 25) for seed in range(4)))
        (last,) = await create(pair[1], pod("last"))
        for watch in (first, second):
            await watch.until(lambda w: w.told[-1][0] == "last")
            check_order(watch.events)
            assert state(watch) == await listed(pair[0])
            marks = [m.mark for m in watch.messages if m.mark]
            assert marks[:2] == [ESTABLISHED, metadata_pb2.WATCH_MARK_SYNCED]
        assert last.metadata.uid in state(first)


async def test_s8_a_watch_can_be_broken_and_resumed_anywhere_without_gap_or_repeat(
    pair: list[Api],
) -> None:
    version, events = "", []
    working = asyncio.gather(*(churn(pair[0], seed, 30) for seed in range(3)))
    turn = 0
    while True:
        done = working.done()
        async with following(watch_pods(pair[turn % 2], version)) as watch:
            enough = turn % 4 + 1
            if done:
                (last,) = await create(pair[0], pod("last"))
                await watch.until(lambda w: ("last", "CHANGED") in w.told)
            else:
                await watch.until(
                    lambda w, n=enough: len(w.messages) > n or working.done()  # type: ignore[misc]
                )
            # What a reader has handled up to a version; what follows it comes again.
            handled: list[Any] = []
            for message in watch.messages:
                handled += message.events
                if message.resource_version:
                    version = message.resource_version
                    events += handled
                    handled = []
        turn += 1
        if done:
            break
    await working
    assert turn > 2
    check_order(events)
    held = {}
    for event in events:
        held[event.pod.metadata.uid] = event.pod
        if event.type == REMOVED:
            del held[event.pod.metadata.uid]
    assert held == await listed(pair[0])
    assert last.metadata.uid in held


async def test_s8_a_watch_resumes_over_a_restart_of_the_apiserver(api: Api) -> None:
    _, gone = await create(api, pod("stays"), pod("gone"))
    async with following(watch_pods(api)) as watch:
        await watch.until(lambda w: w.synced and w.version)
        version = watch.version
    await create(api, pod("new"))
    await delete(api, gone)
    await api.stop()
    await api.start()
    async with following(watch_pods(api, version)) as watch:
        await create(api, pod("last"))
        await watch.until(lambda w: len(w.told) >= 3)
        assert watch.told == [("new", "CHANGED"), ("gone", "REMOVED"), ("last", "CHANGED")]
        check_order(watch.events)
        assert not watch.synced


async def test_s8_a_slow_reader_gets_the_newest_states_and_every_removal(api: Api) -> None:
    """The reader takes one message, then nothing while far more changes than is buffered."""
    heavy = "x" * 60_000
    stream = watch_pods(api)
    first = await stream.read()
    assert first.mark == ESTABLISHED
    for turn in range(40):
        made = await create(
            api, *(pod(f"p-{n}", annotations={"heavy": heavy + str(turn)}) for n in range(5))
        )
        await delete(api, *made)
    await create(api, pod("last"))
    async with following(stream) as watch:
        await watch.until(lambda w: w.told and w.told[-1] == ("last", "CHANGED"))
        check_order(watch.events)
        known = {e.pod.metadata.uid for e in watch.events if e.type == CHANGED}
        removed = {e.pod.metadata.uid for e in watch.events if e.type == REMOVED}
        assert len(known - removed) == 1
        assert len(watch.events) < 400, "what changed meanwhile is told once"


async def test_s8_a_compacted_version_is_told_and_a_new_watch_has_what_is_left(
    etcd: EtcdServer, certs: Path
) -> None:
    """Field report 23: pods are deleted while nobody watches, and forgotten by the store."""
    async with apiservers(etcd, certs, watch_history=5) as (api,):
        made = await create(api, *(pod(f"p-{n}") for n in range(16)))
        async with following(watch_pods(api)) as watch:
            await watch.until(lambda w: w.synced and w.version)
            version = watch.version
        for each in made[:15]:
            await delete(api, each)
        failure = await first_refusal(watch_pods(api, version))
        assert isinstance(failure, OutOfRangeError)
        assert failure.reason == "COMPACTED"
        async with following(watch_pods(api)) as watch:
            await watch.until(lambda w: w.synced)
            assert [name for name, _ in watch.told] == ["p-15"]


async def test_s8_watchers_hear_every_deletion_though_the_apiserver_missed_them(
    etcd: EtcdServer, certs: Path
) -> None:
    """Field report 22: what one apiserver did not hear of was compacted before it came back."""
    async with apiservers(etcd, certs, 2) as (here, behind):
        made = await create(here, *(pod(f"p-{n}") for n in range(10)))
        async with following(watch_pods(behind)) as watch:
            await watch.until(lambda w: w.synced and len(w.told) == 10)
            async with held_up(behind):
                await delete(here, *made[:9])
                (again,) = await create(here, pod("p-0"))
                await label(here, "p-9", seen="no")
                async with store(etcd, certs) as client:
                    await client.compact(await client.current_revision())
            (last,) = await create(here, pod("last"))
            await watch.until(lambda w: ("last", "CHANGED") in w.told)
            check_order(watch.events)
            removed = [e.pod.metadata.uid for e in watch.events if e.type == REMOVED]
            assert sorted(removed) == sorted(p.metadata.uid for p in made[:9])
            assert set(state(watch)) == {
                again.metadata.uid,
                made[9].metadata.uid,
                last.metadata.uid,
            }
            # A version from before cannot be resumed from: what lies between is not known.
            old = made[0].metadata.resource_version
            assert isinstance(await first_refusal(watch_pods(behind, old)), OutOfRangeError)


async def test_s8_another_history_of_the_store_is_told_within_seconds(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    """The record that names the history is replaced, as a restore from a backup does."""
    await create(pair[0], pod("web"))
    async with following(watch_pods(pair[0])) as first, following(watch_pods(pair[1])) as second:
        await first.until(lambda w: w.synced and w.version)
        await second.until(lambda w: w.synced)
        request = rpc_pb2.TxnRequest()
        put = request.success.add().request_put
        put.key, put.value = (
            EPOCHS.key(EPOCH_NAME),
            EPOCHS.schema(epoch="other").SerializeToString(),
        )
        async with store(etcd, certs) as client:
            await client.txn(request.SerializeToString())
        for watch in (first, second):
            await watch.until(lambda w: w.failure is not None)
            assert isinstance(watch.failure, FailedPreconditionError)
            assert watch.failure.reason == "EPOCH_CHANGED"
        for api in pair:
            refused = await first_refusal(watch_pods(api, first.version))
            assert refused.reason == "EPOCH_CHANGED"
            async with following(watch_pods(api)) as again:
                await again.until(lambda w: w.synced)
                assert [name for name, _ in again.told] == ["web"]
    await create(pair[0], pod("after"))
    async with following(watch_pods(pair[1])) as again:
        await again.until(lambda w: len(w.told) == 2)


async def test_s8_a_store_that_was_replaced_is_noticed(
    api: Api, etcd: EtcdServer, certs: Path, tmp_path: Path
) -> None:
    await create(api, *(pod(f"old-{n}") for n in range(3)))
    async with following(watch_pods(api)) as watch:
        await watch.until(lambda w: w.synced and w.version)
        etcd.stop()
        (tmp_path / "etcd").rename(tmp_path / "lost")
        etcd.start()
        await watch.until(lambda w: w.failure is not None)
        assert watch.failure is not None
        assert watch.failure.reason == "EPOCH_CHANGED"
        refused = await first_refusal(watch_pods(api, watch.version))
        assert refused.reason == "EPOCH_CHANGED"
    async with following(watch_pods(api)) as watch:
        await watch.until(lambda w: w.synced)
        assert not watch.told


async def _until_all_is_told(api: Api, uids: set[str]) -> None:
    """Watch, and afresh when another history begins meanwhile, until just these pods are there."""
    while True:
        async with following(watch_pods(api)) as watch:
            await watch.until(lambda w: set(state(w)) == uids or w.failure is not None)
            if watch.failure is None:
                return
            assert watch.failure.reason == "EPOCH_CHANGED"


async def test_s8_a_store_that_was_taken_back_begins_another_history(
    pair: list[Api], etcd: EtcdServer, tmp_path: Path
) -> None:
    """A backup is put back as it is: what was written since is gone, and versions count anew."""
    (kept,) = await create(pair[0], pod("kept"))
    etcd.stop()
    shutil.copytree(tmp_path / "etcd", tmp_path / "backup")
    etcd.start()
    lost = (await eventually_created(pair[0], *(f"lost-{n}" for n in range(5))))[-1]
    etcd.stop()
    shutil.rmtree(tmp_path / "etcd")
    (tmp_path / "backup").rename(tmp_path / "etcd")
    etcd.start()
    (new,) = await eventually_created(pair[1], "new")
    for api in pair:
        await _until_all_is_told(api, {kept.metadata.uid, new.metadata.uid})
        refused = await first_refusal(watch_pods(api, lost.metadata.resource_version))
        assert refused.reason == "EPOCH_CHANGED"
    # Names that the apiserver has used since the backup are free again.
    await eventually_created(pair[0], *(f"lost-{n}" for n in range(5)))


async def eventually_created(api: Api, *names: str) -> list[Any]:
    """Create pods one by one, however long the store takes to come back."""
    made = []
    for name in names:
        made += await eventually(partial(create, api, pod(name, request_id="once")))
    return made


async def test_s8_a_version_above_the_stores_is_refused(pair: list[Api]) -> None:
    (made,) = await create(pair[0], pod("web"))
    epoch, _, revision = made.metadata.resource_version.rpartition("-")
    for api in pair:
        refused = await first_refusal(watch_pods(api, f"{epoch}-{int(revision) + 1000}"))
        assert refused.reason == "EPOCH_CHANGED"


async def test_s8_what_leaves_a_selection_is_removed_and_what_enters_it_appears(api: Api) -> None:
    await api.register_ready("sim-1", "sim-2")
    await create(api, pod("web", labels={"app": "web"}), pod("db", labels={"app": "db"}))
    selector = {
        "requirements": [{"key": "app", "operator": "LABEL_OPERATOR_IN", "values": ["web"]}]
    }
    async with (
        following(watch_pods(api, labels=selector)) as by_label,
        following(watch_pods(api, phases=[PENDING])) as pending,
        following(watch_pods(api, phases=[RUNNING, TERMINATED])) as started,
        following(watch_pods(api, node="sim-1")) as on_node,
        following(watch_pods(api, namespace="nowhere")) as elsewhere,
    ):
        for watch in (by_label, pending, started, on_node, elsewhere):
            await watch.until(lambda w: w.synced)
        assert by_label.told == [("web", "CHANGED")]
        await label(api, "db", app="web")
        await label(api, "web", app="other")
        placed = await place(api, pod("run"), "sim-1")
        await assign(api, ((await listed_by_name(api))["web"], "sim-2"))
        await report(api, said(placed, "sim-1", RUNNING))
        await report(api, said(placed, "sim-1", TERMINATED, 2))
        await delete(api, placed)
        await by_label.until(lambda w: len(w.told) == 3)
        assert by_label.told[1:] == [("db", "CHANGED"), ("web", "REMOVED")]
        await started.until(lambda w: ("run", "REMOVED") in w.told)
        assert {name for name, _ in started.told} == {"run"}
        await on_node.until(lambda w: ("run", "REMOVED") in w.told)
        assert {name for name, _ in on_node.told} == {"run"}
        await pending.until(lambda w: ("run", "REMOVED") in w.told)
        leaving = [e for e in pending.events if e.type == REMOVED]
        assert [e.pod.metadata.name for e in leaving] == ["run"]
        assert not elsewhere.told


async def listed_by_name(api: Api) -> dict[str, Any]:
    return {p.metadata.name: p for p in (await listed(api)).values()}


async def test_s8_an_idle_watch_is_told_newer_versions(etcd: EtcdServer, certs: Path) -> None:
    async with (
        apiservers(etcd, certs, bookmark_interval=0.1) as (api,),
        following(watch_pods(api, namespace="quiet")) as watch,
    ):
        await watch.until(lambda w: w.synced)
        (made,) = await create(api, pod("elsewhere"))
        bookmark = metadata_pb2.WATCH_MARK_BOOKMARK
        await watch.until(lambda w: w.messages[-1].mark == bookmark)
        assert number(watch.version) >= number(made.metadata.resource_version)
        assert not watch.events


async def test_s8_node_watches_leave_loads_out_unless_asked(api: Api) -> None:
    await api.register_ready("sim-1")
    whole = api.nodes.WatchNodes(nodes_pb2.WatchNodesRequest(include_load=True))
    plain = api.nodes.WatchNodes(nodes_pb2.WatchNodesRequest())
    async with following(whole) as with_load, following(plain) as without:
        for watch in (with_load, without):
            await watch.until(lambda w: w.synced)
        await place(api, pod("web"), "sim-1")
        await with_load.until(lambda w: w.events[-1].node.load.promised.pods == 1)
        await cordon(api, "sim-1")
        for watch in (with_load, without):
            await watch.until(lambda w: w.events[-1].node.spec.unschedulable)
        assert len(without.events) == 2
        assert not without.events[-1].node.load.schedulable
