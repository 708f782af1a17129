"""What every program that places pods needs.

`Scheduler` is the base class: a whole scheduler is its method ``decide``. `Session` and
`stay_subscribed` are what it rests on, for programs that want more.
"""

from drumline.schedulers.base import Scheduler
from drumline.schedulers.connection import stay_subscribed
from drumline.schedulers.session import Session
from drumline.schedulers.settings import SchedulerSettings
from drumline.schedulers.view import Assign, ClusterView, Decision, NodeView, PendingPod, Wait

__all__ = [
    "Assign",
    "ClusterView",
    "Decision",
    "NodeView",
    "PendingPod",
    "Scheduler",
    "SchedulerSettings",
    "Session",
    "Wait",
    "stay_subscribed",
]
