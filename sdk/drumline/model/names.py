"""Names that several parts must agree on, and the rules that names follow.

The patterns are meant for ``fullmatch``. Each is bounded in length and needs no
backtracking over more than one label, so that a hostile text costs no more than
a good one.
"""

import re
from typing import Final

DEFAULT_NAMESPACE = "default"
DEFAULT_SCHEDULER = "default"
DEFAULT_GRACE_SECONDS = 30

LABEL_SIMULATED = "drumline.dev/simulated"
LABEL_HOSTNAME = "drumline.dev/hostname"

ANNOTATION_START_DELAY = "simulated.drumline.dev/start-delay"
ANNOTATION_RUN_TIME = "simulated.drumline.dev/run-time"
ANNOTATION_EXIT_CODE = "simulated.drumline.dev/exit-code"

IDENTITY_APISERVER = "system:apiserver"
IDENTITY_NODECONTROLLER = "system:nodecontroller"
IDENTITY_SIMULATOR = "system:simulator"
IDENTITY_NODE_PREFIX = "system:node:"
IDENTITY_SCHEDULER_PREFIX = "system:scheduler:"

_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_QUALIFIED = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?")
"""Names of objects: pods, nodes, schedulers."""

NAME_WITHOUT_DOTS: Final = re.compile(_DNS_LABEL)
"""Names of namespaces and containers."""

LABEL_KEY: Final = re.compile(
    rf"(?:(?=[^/]{{1,253}}/){_DNS_LABEL}(?:\.{_DNS_LABEL})*/)?{_QUALIFIED}"
)
"""Keys of labels, annotations, taints, and names of resources: NAME or PREFIX/NAME."""

LABEL_VALUE: Final = re.compile(rf"(?:{_QUALIFIED})?")
"""Values of labels and taints; may be empty."""
