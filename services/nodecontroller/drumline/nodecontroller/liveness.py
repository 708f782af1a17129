"""Which nodes live: events in, with the time at which they came; transitions out.

`now` is always the receiver's monotonic clock, in seconds. Nodes are told apart by
name and uid; what the cluster has stored of each is told by the apiserver.

A node is READY from a beat on, and UNREACHABLE after a whole grace of silence. The
silence counts only while the observer could have heard the node: it starts anew
when the observer starts, when it comes back from a pause of its own, and when it
regains sight of the cluster after the apiserver was away. A transition comes out
only where the judgement differs from what is stored.

Deadlines are in a heap with one entry a node, which a beat does not touch: an entry
that comes up early is put back with the deadline that holds by then. A beat costs a
look-up and two writes, and a look at the deadlines a few entries of the heap.
"""

import heapq
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from drumline.api.v1.node_pb2 import (
    NODE_STATE_READY,
    NODE_STATE_UNREACHABLE,
    NODE_STATE_UNSPECIFIED,
    NodeState,
)
from drumline.model import names
from drumline.nodecontroller.rules import Rules

REASON_HEARD = "HEARTBEATS_COME"
REASON_SILENT = "HEARTBEATS_MISSING"

# A node that has just registered may beat before the apiserver tells of it. It is
# named as unknown only when it still is after this many seconds.
STRANGER_SECONDS = 1.0
_MAX_STRANGERS = 10_000

_NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class KnownNode:
    """What the cluster has stored of a node, as far as it matters here."""

    name: str
    uid: str
    state: NodeState.ValueType = NODE_STATE_UNSPECIFIED
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """A node's state is no longer what is stored."""

    name: str
    uid: str
    state: NodeState.ValueType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of a beat.

    `unknown` are the nodes to register again. `expected` says that there are
    others, not yet known, that should be asked again soon.
    """

    transitions: list[Transition]
    unknown: list[str]
    expected: bool


@dataclass(slots=True)
class _Node:
    known: KnownNode
    known_since: float
    entry: int
    # What the node was told last, in seconds; 0 before its first beat.
    interval: float = 0.0
    heard: float = _NEVER
    judged: NodeState.ValueType = NODE_STATE_UNSPECIFIED
    # When a transition was given out that the stored state does not show yet.
    given_out: float = _NEVER


@dataclass(slots=True)
class _Stranger:
    first: float
    last: float
    simulated: bool


@dataclass(slots=True)
class Liveness:
    """The judgement on every node. Starts blind: call `regain_sight` when all nodes are known."""

    rules: Rules
    _nodes: dict[str, _Node] = field(default_factory=dict, init=False)
    _strangers: dict[str, _Stranger] = field(default_factory=dict, init=False)
    # When the strangers were last gone through for those to forget.
    _forgotten: float = field(default=_NEVER, init=False)
    _deadlines: list[tuple[float, int, str]] = field(default_factory=list, init=False)
    _entries: int = field(default=0, init=False)
    _seeing: bool = field(default=False, init=False)
    # Silence before this moment means nothing.
    _sight_since: float = field(default=_NEVER, init=False)
    _last_look: float = field(default=_NEVER, init=False)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    @property
    def beating(self) -> int:
        """How many nodes beat; after a start, also those that the apiserver has yet to tell of."""
        return len(self._nodes) + (0 if self._seeing else len(self._strangers))

    def put(self, known: KnownNode, now: float) -> list[Transition]:
        """Take in a node, or what has changed of it."""
        node = self._nodes.get(known.name)
        if node is not None and node.known.uid == known.uid:
            node.known = known
            return self._recall(node, now)
        self._entries += 1
        node = self._nodes[known.name] = _Node(known, now, self._entries)
        heapq.heappush(self._deadlines, (now + self._grace_of(node), node.entry, known.name))
        stranger = self._strangers.pop(known.name, None)
        if stranger is None or (stranger.simulated and not known.simulated):
            return []
        node.heard = stranger.last
        return self._judge_if_heard(node, now)

    def remove(self, name: str) -> None:
        """Forget a node that the cluster no longer has."""
        self._nodes.pop(name, None)

    def retain(self, present: Collection[str]) -> None:
        """Forget every node that is not among `present`, which is all that the cluster has."""
        for name in [name for name in self._nodes if name not in present]:
            del self._nodes[name]

    def lose_sight(self) -> None:
        """The apiserver is away: judge nothing until `regain_sight`. Beats still count."""
        self._seeing = False
        for node in self._nodes.values():
            node.judged = NODE_STATE_UNSPECIFIED
            node.given_out = _NEVER

    def regain_sight(self, now: float) -> list[Transition]:
        """All nodes are known as they are stored now: every one gets its whole grace."""
        self._seeing = True
        self._sight_since = now
        found: list[Transition] = []
        for node in self._nodes.values():
            found += self._judge_if_heard(node, now)
        return found

    def unentitled(self, nodes: Sequence[str]) -> list[str]:
        """Give those of `nodes` that a simulator may not speak for: known, and not simulated."""
        return [
            name
            for name in nodes
            if (node := self._nodes.get(name)) is not None and not node.known.simulated
        ]

    def beat(self, nodes: Sequence[str], now: float, *, simulated: bool) -> Heard:
        """Take a beat of nodes that the caller is entitled to speak for.

        `simulated` says that it came from a simulator.
        """
        heard = Heard([], [], expected=False)
        interval = self.rules.interval(self.beating)
        strangers: list[str] = []
        for name in nodes:
            node = self._nodes.get(name)
            if node is None:
                strangers.append(name)
                continue
            node.heard = now
            node.interval = interval
            if node.judged != NODE_STATE_READY:
                heard.transitions.extend(self._judge_if_heard(node, now))
        if not strangers:
            return heard
        unknown = [name for name in strangers if self._stays_unknown(name, now, simulated)]
        expected = self._seeing and len(unknown) < len(strangers)
        return Heard(heard.transitions, unknown, expected)

    def look(self, now: float) -> list[Transition]:
        """Find the nodes whose grace has run out. To be called every `rules.tick` seconds."""
        absence = now - max(self._last_look, self._sight_since)
        self._last_look = now
        if absence > self.rules.stall:
            # Beats that came meanwhile may still wait to be read.
            self._sight_since = now
        found: list[Transition] = []
        interval = self.rules.interval(self.beating)
        while self._seeing and self._deadlines and self._deadlines[0][0] <= now:
            _, entry, name = heapq.heappop(self._deadlines)
            node = self._nodes.get(name)
            if node is None or node.entry != entry:
                continue
            grace = self.rules.grace_after(max(node.interval, interval))
            due = self._listened_since(node) + grace
            if due <= now:
                found += self._judge_silent(node, now)
                due = now + grace
            elif node.judged == NODE_STATE_READY != node.known.state:
                # What was given out a grace ago is lost.
                found += self._judge_if_heard(node, now)
            heapq.heappush(self._deadlines, (due, entry, name))
        return found

    def _stays_unknown(self, name: str, now: float, simulated: bool) -> bool:
        """Remember a beat of a node that is not known; say whether it is to register again."""
        stranger = self._strangers.get(name)
        if stranger is None or now - stranger.last > self.rules.grace:
            if len(self._strangers) >= _MAX_STRANGERS:
                self._forget_strangers(now)
            if len(self._strangers) >= _MAX_STRANGERS or not names.NAME.fullmatch(name):
                return self._seeing
            stranger = self._strangers[name] = _Stranger(now, now, simulated)
        stranger.last = now
        stranger.simulated = simulated
        waited = now - max(stranger.first, self._sight_since)
        return self._seeing and waited >= STRANGER_SECONDS

    def _forget_strangers(self, now: float) -> None:
        # Seldom, or whoever beats for many names would make every name cost a scan.
        if now - self._forgotten < STRANGER_SECONDS:
            return
        self._forgotten = now
        for name in [n for n, s in self._strangers.items() if now - s.last > self.rules.grace]:
            del self._strangers[name]

    def _grace_of(self, node: _Node) -> float:
        """Give the node's grace: by the longer of what it was told and what it would be told."""
        return self.rules.grace_after(max(node.interval, self.rules.interval(self.beating)))

    def _listened_since(self, node: _Node) -> float:
        return max(node.heard, node.known_since, self._sight_since)

    def _judge_if_heard(self, node: _Node, now: float) -> list[Transition]:
        if not self._seeing or now - node.heard >= self._grace_of(node):
            return []
        return self._judge(node, NODE_STATE_READY, REASON_HEARD, "its heartbeats come", now)

    def _judge_silent(self, node: _Node, now: float) -> list[Transition]:
        silence = now - self._listened_since(node)
        message = f"no heartbeat has come for {silence:.0f} s"
        return self._judge(node, NODE_STATE_UNREACHABLE, REASON_SILENT, message, now)

    def _judge(
        self, node: _Node, state: NodeState.ValueType, reason: str, message: str, now: float
    ) -> list[Transition]:
        # A transition on its way to the store has to be taken back as well.
        contradicted = node.judged != state and node.given_out != _NEVER
        node.judged = state
        if node.known.state == state and not contradicted:
            return []
        node.given_out = now
        return [Transition(node.known.name, node.known.uid, state, reason, message)]

    def _recall(self, node: _Node, now: float) -> list[Transition]:
        """Compare the judgement with what is stored, after that has changed."""
        if node.known.state == node.judged:
            node.given_out = _NEVER
            return []
        if node.judged == NODE_STATE_UNSPECIFIED or node.given_out != _NEVER:
            # Not judged yet; or what was given out has not arrived yet: should it
            # be lost, the node's next deadline gives it out again.
            return []
        if node.judged == NODE_STATE_READY:
            return self._judge_if_heard(node, now)
        return self._judge_silent(node, now)
