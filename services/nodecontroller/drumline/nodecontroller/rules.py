"""How often nodes beat and how long they may be silent: arithmetic over settings."""

from dataclasses import dataclass

# A node may miss this many beats before its silence means anything.
_INTERVALS_OF_GRACE = 4

# Intervals differ by up to this share of their length, so that nodes which
# started together drift apart.
_JITTER = 0.1


@dataclass(frozen=True, slots=True)
class Rules:
    """Times in seconds, and the beats a second that all nodes together stay below."""

    grace: float = 40.0
    beat_interval: float = 10.0
    beats_per_second_bound: float = 1000.0

    def interval(self, nodes: int) -> float:
        """Give the seconds between two beats of a node when there are this many nodes."""
        return max(self.beat_interval, nodes / self.beats_per_second_bound)

    def next_interval(self, nodes: int, draw: float) -> float:
        """Give the seconds until a node's next beat; `draw` is a random number in [0, 1)."""
        return spread(self.interval(nodes), draw)

    def grace_after(self, interval: float) -> float:
        """Give the seconds that a node which was told `interval` may be silent."""
        return max(self.grace, _INTERVALS_OF_GRACE * interval)

    @property
    def tick(self) -> float:
        """Seconds between two looks at the deadlines."""
        return min(1.0, self.grace_after(self.beat_interval) / 40)

    @property
    def stall(self) -> float:
        """Seconds between two looks from which on the observer counts as having been away.

        An eighth of the grace: what shorter pauses can hide is less than the
        beats that a node may miss, and a busy machine does not reach it.
        """
        return self.grace_after(self.beat_interval) / 8


def spread(interval: float, draw: float) -> float:
    """Lengthen or shorten `interval` by up to a tenth; `draw` is a random number in [0, 1)."""
    return interval * (1 + _JITTER * (2 * draw - 1))
