"""PodService: create, read, list, update, delete; and every refusal with what was wrong."""

import base64
import random
from pathlib import Path
from typing import Any

import pytest
from drumline.api.v1 import pod_pb2
from drumline.api.v1 import pod_service_pb2 as pods_pb2
from drumline.model.errors import (
    AlreadyExistsError,
    ConflictError,
    DrumlineError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    from_status,
)

from tests.support.apiservers import Api, apiservers, pod
from tests.support.calls import (
    PENDING,
    RUNNING,
    TERMINATED,
    assign,
    create,
    delete,
    first_refusal,
    get,
    make_namespaces,
    place,
    reasons,
    ref,
    refusal,
    report,
    said,
    watch_pods,
)
from tests.support.history import revision, store
from tests.support.store import EtcdServer


def refusals(results: Any) -> list[DrumlineError | None]:
    """Give the error of each result; None for one that is OK."""
    return [from_status(r.status) if r.status.code else None for r in results]


async def update(api: Api, made: pod_pb2.Pod, *paths: str) -> Any:
    """Update a pod; give the result."""
    change = pods_pb2.PodUpdate(pod=made)
    change.update_mask.paths.extend(paths)
    answer = await api.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[change]))
    return answer.results[0]


async def page(api: Api, token: str = "", size: int = 3, **selector: Any) -> Any:
    """Read a page of pods."""
    return await api.pods.ListPods(
        pods_pb2.ListPodsRequest(
            selector=pods_pb2.PodSelector(**selector), page_size=size, page_token=token
        )
    )


# -- create ------------------------------------------------------------------------


async def test_a_created_pod_is_answered_as_it_is_read_afterwards(api: Api) -> None:
    wanted = pod("web", labels={"a": "b"}, annotations={"n": "v"}, request_id="r")
    (made,) = await create(api, wanted)
    assert made == await get(api, "web", version=made.metadata.resource_version)
    assert made.metadata.namespace == "default"
    assert made.metadata.uid
    assert made.metadata.HasField("create_time")
    assert made.spec.scheduler_name == "default"
    assert made.spec.termination_grace_period_seconds == 30
    assert (made.status.phase, made.status.reason) == (PENDING, "UNSCHEDULED")
    assert made.status.waiting_on == "scheduler:default"


async def test_a_create_repeated_with_its_request_id_answers_with_the_pod(
    pair: list[Api], etcd: EtcdServer, certs: Path
) -> None:
    wanted = pod("web", request_id="once")
    (made,) = await create(pair[0], wanted)
    before = await revision(etcd, certs)
    (again,) = await create(pair[1], wanted)
    assert again == made
    twice = await create(pair[0], wanted, wanted)
    assert twice == [made, made]
    assert await revision(etcd, certs) == before
    for other in (pod("web"), pod("web", request_id="other")):
        answer = await pair[1].pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[other]))
        (refused,) = refusals(answer.results)
        assert isinstance(refused, AlreadyExistsError)
        assert refused.reason == "POD_EXISTS"


async def test_each_item_of_a_batch_is_answered_by_itself(api: Api) -> None:
    await create(api, pod("there"))
    request = pods_pb2.CreatePodsRequest(
        pods=[pod("a"), pod("UPPER"), pod("there"), pod("b", namespace="none"), pod("a"), pod("c")]
    )
    answer = await api.pods.CreatePods(request)
    assert reasons(answer.results) == [
        "", "INVALID", "POD_EXISTS", "NAMESPACE_NOT_FOUND", "POD_EXISTS", "",
    ]  # fmt: skip
    assert [r.pod.metadata.name for r in answer.results] == ["a", "", "", "", "", "c"]
    assert sorted(p.metadata.name for p in (await page(api, size=10)).pods) == ["a", "c", "there"]


async def test_every_violation_is_named_by_its_path_and_nothing_is_stored(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    bad = pod("NO", namespace="no.dots", labels={"/": "x", "a": "!"}, request_id="r" * 129)
    bad.metadata.uid = bad.metadata.resource_version = "mine"
    bad.metadata.annotations["big"] = "x" * 65536
    bad.metadata.delete_time.seconds = 1
    bad.spec.scheduler_name = "-"
    bad.spec.termination_grace_period_seconds = -1
    bad.spec.tolerations.add(operator=9, effect=7)
    bad.spec.containers[0].command[:] = ["", "nul\0"]
    bad.spec.containers[0].resources.requests.cpu_millicores = 10**15 + 1
    bad.spec.containers[0].resources.requests.pods = 1
    bad.spec.containers.add(name="main", working_dir="relative")
    bad.status.phase = RUNNING
    bad.assignment.node = "n"
    bad.verdict.reason = "X"
    before = await revision(etcd, certs)
    answer = await api.pods.CreatePods(pods_pb2.CreatePodsRequest(pods=[bad]))
    (refused,) = refusals(answer.results)
    assert isinstance(refused, InvalidArgumentError)
    paths = {v.field.removeprefix("pods[0].") for v in refused.violations}
    assert {
        "metadata.name", "metadata.namespace", "metadata.labels['/']", "metadata.labels['a']",
        "metadata.annotations", "metadata.request_id", "metadata.uid",
        "metadata.resource_version", "metadata.delete_time", "spec.scheduler_name",
        "spec.termination_grace_period_seconds", "spec.tolerations[0].operator",
        "spec.tolerations[0].effect", "spec.containers[0].command[0]",
        "spec.containers[0].command[1]", "spec.containers[0].resources.requests.cpu_millicores",
        "spec.containers[0].resources.requests.pods", "spec.containers[1].name",
        "spec.containers[1].command", "spec.containers[1].working_dir", "status", "assignment",
        "verdict",
    } <= paths  # fmt: skip
    assert await revision(etcd, certs) == before


@pytest.mark.parametrize(
    "call",
    ["CreatePods", "UpdatePods", "DeletePods", "GetPod", "ListPods", "WatchPods", "WaitForPods"],
)
async def test_fields_that_are_not_known_are_refused_not_ignored(
    api: Api, etcd: EtcdServer, certs: Path, call: str
) -> None:
    (made,) = await create(api, pod("web"))
    requests: dict[str, Any] = {
        "CreatePods": pods_pb2.CreatePodsRequest(pods=[pod("new")]),
        "UpdatePods": pods_pb2.UpdatePodsRequest(
            updates=[{"pod": made, "update_mask": {"paths": ["metadata.labels"]}}]  # type: ignore[list-item]
        ),
        "DeletePods": pods_pb2.DeletePodsRequest(pods=[ref(made)]),
        "GetPod": pods_pb2.GetPodRequest(name="web"),
        "ListPods": pods_pb2.ListPodsRequest(),
        "WatchPods": pods_pb2.WatchPodsRequest(),
        "WaitForPods": pods_pb2.WaitForPodsRequest(
            pods=[ref(made)], condition=pods_pb2.POD_CONDITION_ASSIGNED
        ),
    }
    # Field 1000, a number: as a client of a later release would send it.
    later = type(requests[call]).FromString(requests[call].SerializeToString() + b"\xc0\x3e\x01")
    before = await revision(etcd, certs)
    method = getattr(api.pods, call)
    streams = call in {"WatchPods", "WaitForPods"}
    refused = await (first_refusal(method(later)) if streams else refusal(method(later)))
    assert isinstance(refused, InvalidArgumentError)
    assert await revision(etcd, certs) == before


async def test_a_field_that_is_not_known_is_found_however_deep(api: Api) -> None:
    inner = pod("web").spec.containers[0].SerializeToString() + b"\xc0\x3e\x01"
    spec = pod_pb2.PodSpec()
    spec.containers.add().MergeFromString(inner)
    request = pods_pb2.CreatePodsRequest()
    request.pods.add(metadata=pod("web").metadata, spec=spec)
    assert isinstance(await refusal(api.pods.CreatePods(request)), InvalidArgumentError)


async def test_a_batch_has_from_one_to_five_thousand_items(api: Api) -> None:
    for count in (0, 5001):
        request = pods_pb2.DeletePodsRequest(pods=[ref(pod("x"))] * count)
        failure = await refusal(api.pods.DeletePods(request))
        assert isinstance(failure, InvalidArgumentError)
        assert [v.field for v in failure.violations] == ["pods"]


async def test_a_thousand_pods_are_stored_within_the_stores_own_limits(
    certs: Path, tmp_path: Path
) -> None:
    """etcd as it comes: 128 operations and 1.5 MiB a transaction."""
    etcd = EtcdServer(tmp_path, certs, flags=["--max-txn-ops=128"])
    etcd.start()
    etcd.wait()
    try:
        async with apiservers(etcd, certs) as (api,):
            before = await revision(etcd, certs)
            made = await create(
                api, *(pod(f"p-{n}", annotations={"x": "y" * 3000}) for n in range(1000))
            )
            assert len({p.metadata.uid for p in made}) == 1000
            assert await revision(etcd, certs) - before > 3
            listed = await page(api, size=5000)
            assert [p.metadata.name for p in listed.pods] == sorted(f"p-{n}" for n in range(1000))

            # What fits in none of its transactions is refused, and harms nobody beside it.
            huge = pod("huge")
            del huge.spec.containers[:]
            for n in range(16):
                container = huge.spec.containers.add(name=f"c-{n}", command=["x"])
                container.args.append("y" * 130_000)
            answer = await api.pods.CreatePods(
                pods_pb2.CreatePodsRequest(pods=[pod("small"), huge, pod("tiny")])
            )
            assert reasons(answer.results) == ["", "TOO_LARGE", ""]
            (_, refused, _) = refusals(answer.results)
            assert isinstance(refused, InvalidArgumentError)
    finally:
        etcd.stop()


# -- read --------------------------------------------------------------------------


async def test_reading_what_is_not_there_says_so(api: Api) -> None:
    failure = await refusal(get(api, "web"))
    assert isinstance(failure, NotFoundError)
    assert failure.reason == "POD_NOT_FOUND"
    for wrong, field in (("NO", "name"), ("", "name")):
        failure = await refusal(get(api, wrong))
        assert [v.field for v in failure.violations] == [field]
    failure = await refusal(get(api, "web", namespace="a.b"))
    assert [v.field for v in failure.violations] == ["namespace"]


async def test_pages_are_of_one_version_whatever_changes_and_whoever_serves_them(
    pair: list[Api],
) -> None:
    await make_namespaces(pair[0], "alpha")
    made = await create(
        pair[0],
        *(pod(f"p-{n:02}", namespace=s) for n in range(10) for s in ("default", "alpha")),
    )
    first = await page(pair[0])
    await create(pair[0], pod("p-03a"), pod("zz"))
    await delete(pair[1], *made[5:15])
    seen, answer, dice = list(first.pods), first, random.Random(3)
    while answer.next_page_token:
        answer = await page(dice.choice(pair), answer.next_page_token)
        assert answer.resource_version == first.resource_version
        assert len(answer.pods) <= 3
        seen += answer.pods
    key = [(p.metadata.namespace, p.metadata.name) for p in seen]
    assert key == sorted((p.metadata.namespace, p.metadata.name) for p in made)
    assert {p.metadata.uid: p for p in seen} == {p.metadata.uid: p for p in made}


async def test_lists_select_by_namespace_label_phase_and_node(api: Api) -> None:
    await make_namespaces(api, "team")
    await api.register_ready("sim-1")
    await create(api, pod("a", labels={"app": "x"}), pod("b", labels={"app": ""}), pod("c"))
    placed = await place(api, pod("d", namespace="team"), "sim-1")
    await report(api, said(placed, "sim-1", RUNNING))

    async def names(**selector: Any) -> list[str]:
        return [p.metadata.name for p in (await page(api, size=9, **selector)).pods]

    def app(operator: str, *values: str) -> Any:
        requirement = {"key": "app", "operator": f"LABEL_OPERATOR_{operator}", "values": values}
        return {"requirements": [requirement]}

    assert await names(namespace="team") == ["d"]
    assert await names(phases=[RUNNING, TERMINATED]) == ["d"]
    assert await names(phases=[PENDING]) == ["a", "b", "c"]
    assert await names(phases=[PENDING, RUNNING]) == ["a", "b", "c", "d"]
    assert await names(node="sim-1") == ["d"]
    assert await names(node="sim-1", phases=[PENDING]) == []
    assert await names(labels=app("IN", "x", "")) == ["a", "b"]
    assert await names(labels=app("NOT_IN", "x")) == ["b", "c", "d"]
    assert await names(labels=app("EXISTS")) == ["a", "b"]
    assert await names(labels=app("NOT_EXISTS"), namespace="default") == ["c"]


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({"namespace": "NO"}, "selector.namespace"),
        ({"node": "NO"}, "selector.node"),
        ({"phases": [7]}, "selector.phases"),
        ({"labels": {"requirements": [{"key": "a"}]}}, "selector.labels.requirements[0].operator"),
        (
            {"labels": {"requirements": [{"key": "a", "operator": 1}]}},
            "selector.labels.requirements[0].values",
        ),
    ],
)
async def test_a_bad_selector_is_refused_by_field(
    api: Api, selector: dict[str, Any], field: str
) -> None:
    for failure in (
        await refusal(page(api, **selector)),
        await first_refusal(watch_pods(api, **selector)),
    ):
        assert isinstance(failure, InvalidArgumentError)
        assert [v.field for v in failure.violations] == [field]


async def test_a_refusal_of_many_violations_reaches_the_client(api: Api) -> None:
    worst = [{"key": "🥁" * 200, "operator": 1, "values": ["🥁" * 200] * 256}] * 32
    failure = await refusal(page(api, labels={"requirements": worst}))
    assert isinstance(failure, InvalidArgumentError), failure
    assert failure.violations


async def test_page_sizes_and_tokens_that_cannot_be_are_refused(api: Api) -> None:
    await create(api, *(pod(f"p-{n}") for n in range(5)))
    token = (await page(api)).next_page_token
    for size in (-1, 5001):
        failure = await refusal(page(api, size=size))
        assert [v.field for v in failure.violations] == ["page_size"]
    plain = base64.urlsafe_b64decode(token).decode()
    version, fingerprint, key = plain.split("|")
    forged = [f"x|{fingerprint}|{key}", f"{version}|00000001|{key}", "a|b", "", "|||", plain[:9]]
    tokens = [base64.urlsafe_b64encode(text.encode()).decode() for text in forged if text]
    shorter = base64.urlsafe_b64encode(plain[:-1].encode()).decode()
    for wrong in [*tokens, shorter, "!", "é", token[:-3], "A" * 100_000]:
        failure = await refusal(page(api, wrong))
        assert isinstance(failure, InvalidArgumentError), wrong
        assert [v.field for v in failure.violations] == ["page_token"]
    failure = await refusal(page(api, token, namespace="default"))
    assert [v.field for v in failure.violations] == ["page_token"]


async def test_a_page_of_a_version_that_was_compacted_says_so(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    made = await create(api, *(pod(f"p-{n}") for n in range(5)))
    token = (await page(api)).next_page_token
    await delete(api, made[0])
    async with store(etcd, certs) as client:
        await client.compact(await client.current_revision())
    failure = await refusal(page(api, token))
    assert isinstance(failure, OutOfRangeError)
    assert failure.reason == "COMPACTED"


# -- update ------------------------------------------------------------------------


async def test_updates_replace_what_the_mask_names_and_nothing_else(api: Api) -> None:
    (made,) = await create(api, pod("web", labels={"a": "1", "b": "2"}, annotations={"k": "v"}))
    change = pod("web", cpu=999, labels={"c": "3"})
    change.spec.node_selector["zone"] = "z"
    change.spec.termination_grace_period_seconds = 7
    result = await update(api, change, "metadata.labels", "spec.node_selector")
    made.metadata.labels.clear()
    made.metadata.labels["c"] = "3"
    made.spec.node_selector["zone"] = "z"
    made.metadata.resource_version = result.pod.metadata.resource_version
    assert result.pod == made
    # What the change leaves out is taken away; a default comes back.
    result = await update(
        api, pod("web"), "metadata.labels", "spec.termination_grace_period_seconds"
    )
    assert not result.pod.metadata.labels
    assert result.pod.spec.termination_grace_period_seconds == 30


async def test_an_update_that_changes_nothing_writes_nothing(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    (made,) = await create(api, pod("web", labels={"a": "1"}))
    before = await revision(etcd, certs)
    result = await update(api, made, "metadata.labels", "spec.tolerations")
    assert result.pod == made
    assert await revision(etcd, certs) == before


async def test_an_update_of_what_has_changed_since_is_aborted(pair: list[Api]) -> None:
    await pair[0].register_ready("sim-1")
    (made,) = await create(pair[0], pod("web"))
    change = pod_pb2.Pod.FromString(made.SerializeToString())
    change.metadata.labels["a"] = "1"
    assert not (await update(pair[1], change, "metadata.labels")).status.code
    (refused,) = refusals([await update(pair[0], change, "metadata.labels")])
    assert isinstance(refused, ConflictError)
    # A change of any part counts: the pod that was read was not placed.
    now = await get(pair[0], "web", version=change.metadata.resource_version)
    now = (await update(pair[0], now, "metadata.labels")).pod
    assert reasons(await assign(pair[1], (now, "sim-1"))) == [""]
    (refused,) = refusals([await update(pair[0], now, "metadata.labels")])
    assert isinstance(refused, ConflictError)
    change = pod("web")
    change.metadata.uid = "other"
    (refused,) = refusals([await update(pair[0], change, "metadata.labels")])
    assert isinstance(refused, ConflictError)


async def test_two_updates_of_one_version_in_one_batch_do_not_both_hold(api: Api) -> None:
    (made,) = await create(api, pod("web"))
    first, second = pods_pb2.PodUpdate(pod=made), pods_pb2.PodUpdate(pod=made)
    first.pod.metadata.labels["by"], second.pod.metadata.labels["by"] = "first", "second"
    for each in (first, second):
        each.update_mask.paths.append("metadata.labels")
    answer = await api.pods.UpdatePods(pods_pb2.UpdatePodsRequest(updates=[first, second]))
    assert reasons(answer.results) == ["", "CONFLICT"]
    assert (await get(api, "web")).metadata.labels["by"] == "first"


async def test_what_decides_where_a_pod_goes_is_fixed_once_it_is_placed(api: Api) -> None:
    await api.register_ready("sim-1")
    made = await place(api, pod("web"), "sim-1")
    made.spec.node_selector["zone"] = "z"
    made.metadata.resource_version = ""
    for path in ("spec.node_selector", "spec.tolerations", "spec.scheduler_name"):
        (refused,) = refusals([await update(api, made, path)])
        assert isinstance(refused, FailedPreconditionError)
        assert refused.reason == "ALREADY_ASSIGNED"
    made.metadata.labels["a"] = "b"
    assert not (await update(api, made, "metadata.labels")).status.code


async def test_updates_are_checked_like_creates(api: Api) -> None:
    (made,) = await create(api, pod("web"))
    made.spec.scheduler_name = "-"
    made.metadata.labels["/"] = ""
    made.spec.tolerations.add(operator=1)
    cases = {
        ("spec.scheduler_name",): ["updates[0].pod.spec.scheduler_name"],
        ("metadata.labels",): ["updates[0].pod.metadata.labels['/']"],
        ("spec.tolerations",): ["updates[0].pod.spec.tolerations[0].key"],
        (): ["updates[0].update_mask"],
        ("spec.containers",): ["updates[0].update_mask"],
        ("metadata.name", "spec"): ["updates[0].update_mask", "updates[0].update_mask"],
        ("metadata.labels.a",): ["updates[0].update_mask"],
    }
    for paths, fields in cases.items():
        (refused,) = refusals([await update(api, made, *paths)])
        assert isinstance(refused, InvalidArgumentError), paths
        assert [v.field for v in refused.violations] == fields
    (missing,) = refusals([await update(api, pod("none"), "metadata.labels")])
    assert isinstance(missing, NotFoundError)


# -- delete ------------------------------------------------------------------------


async def test_a_pod_on_no_node_is_gone_with_the_answer(api: Api) -> None:
    made = await create(api, pod("a"), pod("b"))
    answer = await delete(api, *made)
    assert reasons(answer.results) == ["", ""]
    assert not any(result.HasField("pod") for result in answer.results)
    assert not (await page(api)).pods
    assert reasons((await delete(api, *made)).results) == ["POD_NOT_FOUND"] * 2


async def test_a_running_pod_is_stopped_first_and_gone_with_its_kubelets_report(api: Api) -> None:
    await api.register_ready("sim-1")
    made = await place(api, pod("web"), "sim-1")
    (result,) = (await delete(api, made, grace=3)).results
    assert result.pod.metadata.HasField("delete_time")
    assert result.pod.spec.termination_grace_period_seconds == 3
    (again,) = (await delete(api, made)).results
    assert again.pod == result.pod
    assert await report(api, said(made, "sim-1", TERMINATED, why="DELETED")) == [""]
    assert isinstance(await refusal(_current(api, "web", made)), NotFoundError)


async def _current(api: Api, name: str, made: pod_pb2.Pod) -> pod_pb2.Pod:
    """Read a pod as of now, not of what this apiserver has heard."""
    answer = await api.pods.UpdatePods(
        pods_pb2.UpdatePodsRequest(
            updates=[{"pod": pod(name), "update_mask": {"paths": ["metadata.labels"]}}]  # type: ignore[list-item]
        )
    )
    assert reasons(answer.results) == ["POD_NOT_FOUND"]
    return await get(api, name)


async def test_deleting_another_uid_or_with_a_wrong_grace_period_changes_nothing(
    api: Api, etcd: EtcdServer, certs: Path
) -> None:
    (made,) = await create(api, pod("web"))
    before = await revision(etcd, certs)
    made.metadata.uid = "other"
    assert reasons((await delete(api, made)).results) == ["POD_NOT_FOUND"]
    for grace in (-1, 86_401):
        failure = await refusal(delete(api, made, grace=grace))
        assert [v.field for v in failure.violations] == ["grace_period_seconds"]
    assert await revision(etcd, certs) == before
