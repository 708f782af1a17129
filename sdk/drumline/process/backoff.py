"""One back-off for everything that is tried again.

The delays grow exponentially and are spread over their whole length ("full
jitter", as in Marc Brooker's "Exponential backoff and jitter", 2015), so that
many clients that failed together do not come back together.
"""

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Delays between tries, in seconds.

    The n-th delay is drawn evenly between half of `initial` and the smaller of
    `maximum` and `initial` times `factor` to the n-th.
    """

    initial: float = 0.1
    maximum: float = 10.0
    factor: float = 2.0
    _tries: int = field(default=0, init=False)

    def next_delay(self) -> float:
        """Give the seconds to wait before the next try."""
        bound = min(self.maximum, self.initial * self.factor ** min(self._tries, 60))
        self._tries += 1
        return random.uniform(self.initial / 2, bound)  # noqa: S311 - spreads load, keeps no secret

    def reset(self) -> None:
        """Start over after a success."""
        self._tries = 0
