"""What the client sends again, and what never."""

from collections import deque

import pytest
from drumline.api.v1.metadata_pb2 import PodReference
from drumline.api.v1.pod_pb2 import Pod
from drumline.api.v1.pod_service_pb2 import CreatePodsResponse
from drumline.client import Client, policy, reference
from drumline.model.errors import (
    AlreadyExistsError,
    ConflictError,
    DeadlineExceededError,
    DrumlineError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
    to_status,
)
from drumline.process.tls import TlsFiles

from tests.support.fake_api import FakePods, serving

LOST = ("after", UnavailableError("the answer is lost"))


def pod(name: str) -> Pod:
    made = Pod()
    made.metadata.name = name
    return made


async def test_a_read_is_sent_again_when_the_apiserver_is_away(
    pods: FakePods, client: Client
) -> None:
    pods.put("web")
    pods.scripts["GetPod"] = deque([UnavailableError("etcd is away", retry_after=0.01)] * 3)
    assert (await client.get_pod("web")).metadata.name == "web"
    assert len(pods.requests["GetPod"]) == 4


async def test_a_refusal_is_raised_at_once_as_what_it_is(pods: FakePods, client: Client) -> None:
    with pytest.raises(NotFoundError, match="no pod"):
        await client.get_pod("nobody")
    assert len(pods.requests["GetPod"]) == 1


async def test_a_create_whose_answer_was_lost_makes_one_pod(pods: FakePods, client: Client) -> None:
    pods.scripts["CreatePods"] = deque([LOST, LOST])
    made = await client.create_pod(pod("web"))
    assert made.metadata.uid == pods.stored["default", "web"].metadata.uid
    sent = {request.pods[0].metadata.request_id for request in pods.requests["CreatePods"]}
    assert len(pods.requests["CreatePods"]) == 3
    assert len(sent) == 1
    assert sent != {""}


async def test_two_creates_of_one_name_are_two_requests(pods: FakePods, client: Client) -> None:
    await client.create_pod(pod("web"))
    with pytest.raises(AlreadyExistsError):
        await client.create_pod(pod("web"))
    assert len(pods.requests["CreatePods"]) == 2


async def test_creating_does_not_change_the_callers_pod(client: Client) -> None:
    wanted = pod("web")
    await client.create_pod(wanted)
    assert wanted == pod("web")


async def test_only_the_items_that_can_succeed_are_sent_again(
    pods: FakePods, client: Client
) -> None:
    def partly(_request: object) -> CreatePodsResponse:
        answer = CreatePodsResponse()
        for error in (UnavailableError("busy"), InvalidArgumentError("bad name"), None):
            if error is None:
                answer.results.add(pod=pods.put("c"))
            else:
                answer.results.add(status=to_status(error))
        return answer

    pods.scripts["CreatePods"] = deque([partly])
    first, second, third = await client.create_pods([pod("a"), pod("b"), pod("c")])
    assert first.unwrap().metadata.name == "a"
    assert isinstance(second.error, InvalidArgumentError)
    assert third.unwrap().metadata.name == "c"
    again = pods.requests["CreatePods"][1]
    assert [item.metadata.name for item in again.pods] == ["a"]


async def test_an_update_is_sent_once(pods: FakePods, client: Client) -> None:
    stored = pods.put("web")
    pods.scripts["UpdatePods"] = deque([LOST])
    with pytest.raises(UnavailableError):
        await client.update_pod(stored, ["metadata.labels"])
    assert len(pods.requests["UpdatePods"]) == 1


async def test_a_delete_by_uid_is_sent_again_and_finding_nothing_is_success(
    pods: FakePods, client: Client
) -> None:
    stored = pods.put("web")
    pods.scripts["DeletePods"] = deque([LOST])
    (result,) = await client.delete_pods([reference(stored)])
    assert result.error is None
    assert result.value is None
    assert len(pods.requests["DeletePods"]) == 2


async def test_a_delete_by_name_is_sent_once(pods: FakePods, client: Client) -> None:
    pods.put("web")
    pods.scripts["DeletePods"] = deque([LOST])
    with pytest.raises(UnavailableError):
        await client.delete_pods([PodReference(name="web")])
    assert len(pods.requests["DeletePods"]) == 1


async def test_a_call_ends_by_its_deadline(pods: FakePods, client: Client) -> None:
    pods.scripts["GetPod"] = deque([UnavailableError("etcd is away", retry_after=30.0)])
    with pytest.raises(UnavailableError, match="etcd is away"):
        await client.get_pod("web", timeout=5.0)
    assert len(pods.requests["GetPod"]) == 1


@pytest.mark.parametrize(
    ("error", "repeatable", "expected"),
    [
        (UnavailableError("x"), True, 0.5),
        (UnavailableError("x", retry_after=2.0), True, 2.0),
        (UnavailableError("x", retry_after=0.1), True, 0.5),
        (UnavailableError("x"), False, None),
        (DeadlineExceededError("x"), True, 0.5),
        (ResourceExhaustedError("x"), True, None),
        (ResourceExhaustedError("x", retry_after=3.0), True, 3.0),
        (ConflictError("x"), True, None),
        (NotFoundError("x"), True, None),
    ],
)
def test_the_servers_advice_is_followed(
    error: DrumlineError, repeatable: bool, expected: float | None
) -> None:
    assert policy.wait_before_retry(error, repeatable=repeatable, delay=0.5) == expected


async def test_a_dead_address_is_passed_over(
    address: str, closed_address: str, pods: FakePods, tls: tuple[TlsFiles, TlsFiles]
) -> None:
    pods.put("web")
    async with Client([closed_address, address], tls[1]) as client:
        assert (await client.get_pod("web")).metadata.name == "web"
        # An update too: nothing was sent to the dead address.
        assert (await client.update_pod(pods.stored["default", "web"], [])).metadata.name == "web"


async def test_calls_go_on_at_the_next_address_when_one_dies(
    tls: tuple[TlsFiles, TlsFiles],
) -> None:
    first, second = FakePods(), FakePods()
    first.put("web")
    second.put("web")
    async with (
        serving(second, tls[0]) as other,
        serving(first, tls[0]) as one,
        Client([one, other], tls[1]) as client,
    ):
        await client.get_pod("web")
        assert "GetPod" not in second.requests
        first.scripts["GetPod"] = deque([UnavailableError("it ends")] * 100)
        assert (await client.get_pod("web")).metadata.name == "web"
    assert len(second.requests["GetPod"]) == 1


async def test_an_unreachable_cluster_is_told_in_one_sentence(
    closed_address: str, tls: tuple[TlsFiles, TlsFiles]
) -> None:
    async with Client([closed_address], tls[1], connect_timeout=0.2) as client:
        with pytest.raises(UnavailableError, match="connection refused") as caught:
            await client.version()
    assert caught.value.reason == "UNREACHABLE"
    assert closed_address in caught.value.message


async def test_a_cluster_of_another_authority_is_not_trusted(
    address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.support.fake_api import certificates

    stranger = certificates(tmp_path_factory.mktemp("other"))[1]
    async with Client([address], stranger, connect_timeout=0.5) as client:
        with pytest.raises(UnavailableError, match="not signed by the CA in the context"):
            await client.version()


async def test_a_client_learns_who_it_is(client: Client) -> None:
    answer = await client.version()
    assert (answer.identity, list(answer.groups)) == ("admin", ["admin"])
