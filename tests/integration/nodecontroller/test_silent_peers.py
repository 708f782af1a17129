"""L3: a peer that falls silent without closing anything is noticed within two beat intervals."""

import pytest

from tests.integration.nodecontroller.conftest import Setting, until
from tests.integration.nodecontroller.kubelets import line
from tests.integration.nodecontroller.silent_proxy import SilentProxy

# Two intervals of ten seconds, with default settings.
TWO_INTERVALS = 20.0


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def test_l3_a_silent_apiserver_is_left_and_a_silent_node_is_hung_up_on(
    parts: Setting, capfd: pytest.CaptureFixture[str]
) -> None:
    to_apiserver = SilentProxy(port(parts.settings.apiserver[0]))
    to_controller = SilentProxy(port(parts.address))
    async with to_apiserver.serving(), to_controller.serving():
        await parts.start_apiserver()
        parts.apiserver.add("n0")
        both = (to_apiserver.address, *parts.settings.apiserver)
        await parts.start_controller(apiserver=both)
        async with line(to_controller.address, parts.certificates("n0")) as kubelet:
            await kubelet.beat("n0")
            await until(lambda: parts.apiserver.states()["n0"] == "READY")
            watches = parts.apiserver.watches
            capfd.readouterr()
            to_apiserver.swallow = to_controller.swallow = True
            await until(lambda: parts.apiserver.watches > watches, TWO_INTERVALS)
            said: list[str] = []

            def beats_ended() -> bool:
                said.extend(capfd.readouterr())
                return "HeartbeatService/Beat" in "".join(said)

            await until(beats_ended, TWO_INTERVALS)
