"""What a scheduler decides on: whether a pod fits, and why not, are one rule."""

from drumline.api.v1.node_pb2 import Node
from drumline.api.v1.pod_pb2 import Pod, PodSpec
from drumline.model import fit, resources
from drumline.schedulers import ClusterView, NodeView, PendingPod
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.scheduler.test_one_fit_rule import nodes, scalar_causes, specs


@settings(max_examples=200, deadline=None)
@given(nodes(), specs(), st.booleans())
def test_a_pod_fits_where_nothing_keeps_it_off(
    node: Node, spec: PodSpec, schedulable: bool
) -> None:
    allocatable = resources.from_proto(node.load.allocatable)
    free = resources.subtract(allocatable, resources.from_proto(node.load.promised))
    view = NodeView(node, allocatable, free, schedulable)
    pod = PendingPod(Pod(spec=spec), resources.pod_request(spec))
    causes = view.why_not(pod)
    assert view.fits(pod) == (not causes)
    assert ClusterView.of([view]).that_fit(pod) == ([] if causes else [view])
    expected = scalar_causes(spec, node)
    assert causes == expected or ([c.reason for c in causes], expected, schedulable) == (
        [fit.NODE_NOT_READY],
        [],
        False,
    )
