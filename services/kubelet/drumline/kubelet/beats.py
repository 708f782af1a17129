"""Tells a nodecontroller that the nodes live, as often as it asks for.

Beats are sent from a task of their own that never waits for a pod, a disk or the
apiserver. A beat that is not answered within two intervals means that the peer is
gone, though the connection may look alive: another one is opened.
"""

import asyncio
from collections.abc import Callable, Sequence

import grpc
from drumline.model.errors import DrumlineError, UnavailableError, from_rpc_error
from drumline.node.v1.heartbeat_service_pb2 import BeatRequest, BeatResponse
from drumline.node.v1.heartbeat_service_pb2_grpc import HeartbeatServiceStub
from drumline.process import logs
from drumline.process.backoff import Backoff
from drumline.process.channels import Endpoints

_log = logs.get(__name__)

# Until a nodecontroller has said how often it wants to hear.
FIRST_INTERVAL_SECONDS = 5.0
_LEAST_INTERVAL_SECONDS = 0.01


class Beats:
    """The heartbeat of `nodes`; `forgotten` is told of those that the cluster does not know."""

    def __init__(
        self,
        endpoints: Endpoints,
        nodes: Sequence[str],
        forgotten: Callable[[Sequence[str]], None],
        first_interval: float = FIRST_INTERVAL_SECONDS,
    ) -> None:
        self._endpoints = endpoints
        self._nodes = nodes
        self._forgotten = forgotten
        self._interval = first_interval
        self._backoff = Backoff(initial=0.1, maximum=5.0)
        self._said = ""

    async def run(self) -> None:
        """Beat, until cancelled."""
        while True:
            try:
                await self._beat()
            except DrumlineError as error:
                said = f"{error.reason}: {error.message}"
                if said != self._said:
                    self._said = said
                    address = self._endpoints.address
                    _log.warning("nodecontroller_lost", address=address, error=error.message)
            await self._endpoints.rotate()
            await asyncio.sleep(self._backoff.next_delay())

    async def _beat(self) -> None:
        """Beat over one stream to its end, which is an error."""
        stub = HeartbeatServiceStub(self._endpoints.channel())
        call = stub.Beat()
        sequence = 0
        try:
            while True:
                sequence += 1
                async with asyncio.timeout(2 * self._interval):
                    await call.write(BeatRequest(nodes=self._nodes, sequence=sequence))
                    response = await call.read()
                if not isinstance(response, BeatResponse):
                    raise UnavailableError("the nodecontroller ended the stream")
                if self._said or sequence == 1:
                    self._said = ""
                    _log.info("nodecontroller_found", address=self._endpoints.address)
                self._backoff.reset()
                if response.unknown_nodes:
                    self._forgotten(response.unknown_nodes)
                asked = response.next_interval.ToNanoseconds() / 1e9
                self._interval = max(asked, _LEAST_INTERVAL_SECONDS)
                await asyncio.sleep(self._interval)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.InvalidStateError:
            raise UnavailableError("the nodecontroller ended the stream") from None
        except TimeoutError:
            raise UnavailableError("a beat was not answered within two intervals") from None
        finally:
            call.cancel()
