"""When a transaction waits for more steps, although nothing is in its way.

A transaction costs etcd, this process, and everyone who is told of it much the same,
whether it holds one step or twenty. While this process is busy and calls come faster
than transactions are made, many small ones would only make all of them late: then one
begins when the process has rested for as long as it has worked since the last began.
An idle process never waits, nor does one that is called by one client at a time.
"""

# Of the time between two transactions, the share that the process may be busy.
_BUSY_SHARE = 0.5
# No transaction waits for longer than this since the last began, in seconds.
_MOST_SECONDS = 0.008
# From this many calls a transaction on, on average, there is something to collect; the
# newest counts for a twentieth, so that two that come together by chance are none.
_SHARED_BY = 1.25
_NEWEST_WEIGHT = 0.05
# A transaction of this many steps gains little by more of them.
_ENOUGH_STEPS = 100


class Pace:
    """The time from one transaction to the next."""

    def __init__(self) -> None:
        self._began = self._worked = 0.0
        # Calls a transaction, of late.
        self._calls = 1.0

    def begin(self, now: float, worked: float, calls: int) -> None:
        """Note that a transaction begins, for the steps of `calls` calls.

        `now` and `worked`, the processor time of the process so far, are in seconds.
        """
        self._began, self._worked = now, worked
        self._calls += (calls - self._calls) * _NEWEST_WEIGHT

    def wait(self, now: float, worked: float, steps: int) -> float:
        """Give the seconds that a transaction of `steps` steps has yet to wait."""
        if self._calls < _SHARED_BY or steps >= _ENOUGH_STEPS:
            return 0.0
        apart = min((worked - self._worked) / _BUSY_SHARE, _MOST_SECONDS)
        return max(self._began + apart - now, 0.0)
