"""A whole scheduler: each pod goes where the least cpu is left over.

python examples/best_fit_scheduler.py --help
"""

import sys
from collections.abc import Iterator, Sequence

from drumline.schedulers import Assign, ClusterView, Decision, PendingPod, Scheduler, Wait


class BestFit(Scheduler):
    """Fills nodes one after the other."""

    def decide(self, pending: Sequence[PendingPod], cluster: ClusterView) -> Iterator[Decision]:
        """Take for each pod the fullest node that has room for it."""
        for pod in pending:
            nodes = cluster.that_fit(pod)
            if nodes:
                best = min(nodes, key=lambda node: (node.free.cpu_millicores, node.name))
                cluster = cluster.with_pod(best.name, pod)
                yield Assign(pod, best.name)
            else:
                message = f"none of {len(cluster.nodes)} nodes has room for it"
                yield Wait(pod, "NO_NODE_FITS", message)


if __name__ == "__main__":
    sys.exit(BestFit.main("best-fit"))
