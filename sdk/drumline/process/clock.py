"""The only place that reads clocks; everything else is given `now`."""

import time
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp


def monotonic() -> float:
    """Seconds that never go back; only differences mean anything."""
    return time.monotonic()


def processor() -> float:
    """Seconds of processor time that this process has used, all its threads together."""
    return time.process_time()


def wall() -> datetime:
    """Wall-clock time with its zone (UTC), for people and certificates."""
    return datetime.now(UTC)


def timestamp() -> Timestamp:
    """Wall-clock time as contracts carry it."""
    stamp = Timestamp()
    stamp.FromNanoseconds(time.time_ns())
    return stamp
