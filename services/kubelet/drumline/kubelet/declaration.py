"""What a node says of itself when it registers, out of the settings and the host."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from drumline.api.v1.node_pb2 import NodeInfo, Taint
from drumline.api.v1.pod_pb2 import TAINT_EFFECT_NO_SCHEDULE
from drumline.api.v1.resources_pb2 import Resources
from drumline.kubelet.settings import Settings
from drumline.model.names import LABEL_HOSTNAME, LABEL_SIMULATED
from drumline.model.quantity import parse_quantity
from drumline.model.validation.nodes import node_info
from drumline.node.v1.node_agent_service_pb2 import NodeRegistration
from drumline.process.settings import SettingsError
from drumline.process.version import VERSION

MAXIMUM_NODES = 5000
_RUNTIMES = ("process", "simulated")
_SIMULATED_CPU = "32"
_SIMULATED_MEMORY = "128Gi"


def registrations(settings: Settings) -> list[NodeRegistration]:
    """Give what each node says; the address is filled in once it is known.

    Raises SettingsError for settings that no node can have.
    """
    if settings.runtime not in _RUNTIMES:
        raise SettingsError(f"--runtime is {settings.runtime!r}, and must be one of {_RUNTIMES}")
    if len(settings.nodes) > MAXIMUM_NODES:
        raise SettingsError(
            f"--simulated-nodes is {settings.simulated_nodes}, and must be at most {MAXIMUM_NODES}"
        )
    capacity = _capacity(settings)
    labels = dict(_pairs("--label", settings.label))
    taints = [_taint(text) for text in settings.taint]
    simulated = settings.runtime == "simulated"
    if simulated:
        labels[LABEL_SIMULATED] = "true"
        taints.append(Taint(key=LABEL_SIMULATED, value="true", effect=TAINT_EFFECT_NO_SCHEDULE))
    uname = platform.uname()
    info = NodeInfo(
        capacity=capacity,
        allocatable=capacity,
        labels=labels,
        taints=taints,
        runtime=settings.runtime,
        runs_images=simulated,
        address=settings.advertise_address,
        kubelet_version=VERSION,
        platform="simulated" if simulated else f"{uname.system} {uname.release} {uname.machine}",
    )
    found = []
    for name in settings.nodes:
        info.labels[LABEL_HOSTNAME] = name
        found.append(NodeRegistration(name=name, info=info))
    wrong = node_info(info, "node")
    if wrong:
        said = "; ".join(f"{v.field.removeprefix('node.')}: {v.description}" for v in wrong)
        raise SettingsError(f"the node that these settings describe is not valid: {said}")
    return found


def _capacity(settings: Settings) -> Resources:
    if settings.runtime == "simulated":
        cpu = _amount("--cpu", settings.cpu or _SIMULATED_CPU, thousandths=True)
        memory = _amount("--memory", settings.memory or _SIMULATED_MEMORY, thousandths=False)
    else:
        cpu = (os.cpu_count() or 1) * 1000
        if settings.cpu:
            cpu = _amount("--cpu", settings.cpu, thousandths=True)
        memory = (
            _amount("--memory", settings.memory, thousandths=False)
            if settings.memory
            else _host_memory()
        )
    named = {
        name: _amount(f"--resource {name}", amount, thousandths=True)
        for name, amount in _pairs("--resource", settings.resource)
    }
    return Resources(
        cpu_millicores=cpu, memory_bytes=memory, pods=settings.pods, named_thousandths=named
    )


def _host_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise SettingsError("the host's memory is not known: give it with --memory")


def _amount(flag: str, text: str, *, thousandths: bool) -> int:
    try:
        return parse_quantity(text, thousandths=thousandths)
    except ValueError as error:
        raise SettingsError(f"{flag}: {error}") from None


def _pairs(flag: str, items: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for item in items:
        key, sign, value = item.partition("=")
        if not (key and sign):
            raise SettingsError(f"{flag} is {item!r}, and must be KEY=VALUE")
        pairs.append((key, value))
    return pairs


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if effect != "NoSchedule" or not key:
        raise SettingsError(f"--taint is {text!r}, and must be KEY=VALUE:NoSchedule")
    return Taint(key=key, value=value, effect=TAINT_EFFECT_NO_SCHEDULE)
