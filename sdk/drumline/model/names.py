"""Names that several parts must agree on."""

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
