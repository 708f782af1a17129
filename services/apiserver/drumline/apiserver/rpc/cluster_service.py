"""drumline.api.v1.ClusterService."""

from drumline.api.v1 import cluster_service_pb2
from drumline.apiserver.rpc.common import check_known_fields
from drumline.apiserver.rpc.components import Components
from drumline.apiserver.store.limits import Limits
from drumline.process.rpc import Call
from drumline.process.version import VERSION


class ClusterService:
    """The cluster itself."""

    def __init__(self, components: Components, limits: Limits) -> None:
        self._components = components
        self._limits = limits

    async def GetVersion(
        self, request: cluster_service_pb2.GetVersionRequest, call: Call
    ) -> cluster_service_pb2.GetVersionResponse:
        """Tell version and limits."""
        check_known_fields(request)
        return cluster_service_pb2.GetVersionResponse(
            version=VERSION,
            etcd_version=self._limits.etcd_version,
            identity=call.peer.identity,
            groups=call.peer.groups,
            largest_atomic_assignment=self._limits.largest_atomic_assignment,
        )

    async def ListComponents(
        self, request: cluster_service_pb2.ListComponentsRequest, _: Call
    ) -> cluster_service_pb2.ListComponentsResponse:
        """Tell who is connected."""
        check_known_fields(request)
        return cluster_service_pb2.ListComponentsResponse(components=self._components.all())
