"""What nodes say of themselves, out of settings."""

import dataclasses

import pytest
from drumline.api.v1.node_pb2 import Taint
from drumline.api.v1.pod_pb2 import TAINT_EFFECT_NO_SCHEDULE
from drumline.kubelet.declaration import registrations
from drumline.kubelet.settings import Settings
from drumline.process.settings import SettingsError

SETTINGS = Settings(node_name="n1")
SIMULATED = Settings(runtime="simulated", simulated_nodes=3)


def test_flags_say_what_the_node_has() -> None:
    settings = dataclasses.replace(
        SETTINGS,
        cpu="1500m",
        memory="2Gi",
        pods=7,
        resource=("example.com/gpu=2",),
        label=("zone=a",),
        taint=("dedicated=web:NoSchedule", "fragile:NoSchedule"),
    )
    (node,) = registrations(settings)
    assert node.name == "n1"
    capacity = node.info.capacity
    assert (capacity.cpu_millicores, capacity.memory_bytes, capacity.pods) == (1500, 2 << 30, 7)
    assert dict(capacity.named_thousandths) == {"example.com/gpu": 2000}
    assert node.info.allocatable == capacity
    assert dict(node.info.labels) == {"zone": "a", "drumline.dev/hostname": "n1"}
    assert list(node.info.taints) == [
        Taint(key="dedicated", value="web", effect=TAINT_EFFECT_NO_SCHEDULE),
        Taint(key="fragile", effect=TAINT_EFFECT_NO_SCHEDULE),
    ]


def test_simulated_nodes_are_large_and_marked() -> None:
    nodes = registrations(SIMULATED)
    assert [n.name for n in nodes] == ["sim-0001", "sim-0002", "sim-0003"]
    info = nodes[1].info
    assert info.capacity.cpu_millicores == 32000
    assert info.capacity.memory_bytes == 128 << 30
    assert dict(info.labels) == {
        "drumline.dev/simulated": "true",
        "drumline.dev/hostname": "sim-0002",
    }
    assert list(info.taints) == [
        Taint(key="drumline.dev/simulated", value="true", effect=TAINT_EFFECT_NO_SCHEDULE)
    ]
    assert info.runs_images


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"runtime": "docker"}, "--runtime"),
        ({"cpu": "much"}, "--cpu"),
        ({"memory": "-1"}, "--memory"),
        ({"resource": ("gpu",)}, "--resource"),
        ({"resource": ("gpu=x",)}, "--resource gpu"),
        ({"label": ("=b",)}, "--label"),
        ({"label": ("a b=c",)}, "labels"),
        ({"taint": ("a=b",)}, "--taint"),
        ({"taint": ("a=b:NoExecute",)}, "--taint"),
        ({"advertise_address": "nowhere"}, "address"),
    ],
)
def test_a_bad_setting_is_named(changes: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        registrations(dataclasses.replace(SETTINGS, **changes))  # type: ignore[arg-type]


def test_a_simulator_carries_at_most_5000_nodes() -> None:
    with pytest.raises(SettingsError, match="--simulated-nodes"):
        registrations(dataclasses.replace(SIMULATED, simulated_nodes=5001))
