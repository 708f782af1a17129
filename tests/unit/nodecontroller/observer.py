"""A nodecontroller's core under a clock that the test turns."""

from collections.abc import Iterable

from drumline.api.v1.node_pb2 import (
    NODE_STATE_READY,
    NODE_STATE_UNREACHABLE,
    NODE_STATE_UNSPECIFIED,
    NodeState,
)
from drumline.nodecontroller.liveness import Heard, KnownNode, Liveness, Transition
from drumline.nodecontroller.rules import Rules

READY = NODE_STATE_READY
UNREACHABLE = NODE_STATE_UNREACHABLE
UNJUDGED = NODE_STATE_UNSPECIFIED


class Observer:
    """Drives `Liveness` as its process does, and stores what comes out, as the cluster would."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.now = 1000.0
        self.stored: dict[str, KnownNode] = {}
        self.posted: list[tuple[str, str]] = []
        self.accepts = True
        self.liveness = Liveness(self.rules)

    def restart(self) -> None:
        """Another process takes over: it knows nothing but what is stored."""
        self.liveness = Liveness(self.rules)
        self.connect()

    def connect(self) -> None:
        for node in self.stored.values():
            self.post(self.liveness.put(node, self.now))
        self.liveness.retain(set(self.stored))
        self.post(self.liveness.regain_sight(self.now))

    def register(
        self,
        *names: str,
        uid: str = "",
        state: NodeState.ValueType = UNJUDGED,
        simulated: bool = False,
    ) -> None:
        for name in names:
            self.store(KnownNode(name, uid or f"uid-of-{name}", state, simulated))

    def store(self, node: KnownNode) -> None:
        self.stored[node.name] = node
        self.post(self.liveness.put(node, self.now))

    def post(self, transitions: Iterable[Transition]) -> None:
        for transition in transitions:
            self.posted.append((transition.name, NodeState.Name(transition.state)[11:]))
            node = self.stored[transition.name]
            assert node.uid == transition.uid
            if self.accepts:
                self.store(KnownNode(node.name, node.uid, transition.state, node.simulated))

    def beat(self, *names: str, simulated: bool = False) -> Heard:
        heard = self.liveness.beat(names, self.now, simulated=simulated)
        self.post(heard.transitions)
        return heard

    def pass_time(self, seconds: float, beating: Iterable[str] = ()) -> None:
        """Let time pass, with looks at even times; `beating` beat every five seconds."""
        names = tuple(beating)
        for second in range(1, round(seconds) + 1):
            self.now += 1.0
            if names and second % 5 == 0:
                self.beat(*names)
            self.post(self.liveness.look(self.now))

    def sleep(self, seconds: float) -> None:
        """The process is stopped: time passes, and it does not look."""
        self.now += seconds
        self.post(self.liveness.look(self.now))

    def take(self) -> list[tuple[str, str]]:
        """Give what was posted since the last time."""
        taken, self.posted = self.posted, []
        return taken
