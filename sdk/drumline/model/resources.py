"""Amounts of resources as values: what pods ask for, what nodes have, sums of either.

These functions run for every pod on every path (placement, guard, admission), so
they cost a microsecond or two; the usual amounts name no resource beyond cpu,
memory and pods, and pay nothing for the possibility.
"""

from typing import Final, NamedTuple

from drumline.api.v1.pod_pb2 import PodSpec
from drumline.api.v1.resources_pb2 import Resources

Named = tuple[tuple[str, int], ...]


class Amounts(NamedTuple):
    """An amount of each resource; equal when all amounts are equal.

    Values are integers of any size and sign: what is free on a node that shrank
    is negative. Use `add` and `subtract`; the operators are those of tuples.
    """

    cpu_millicores: int = 0
    """Thousandths of a core."""
    memory_bytes: int = 0
    """Bytes."""
    pods: int = 0
    """Number of pods."""
    named: Named = ()
    """(name, thousandths), by name; none of them zero."""


class Shortfall(NamedTuple):
    """A resource of which more is asked for than is free."""

    resource: str
    """"cpu" (millicores), "memory" (bytes), "pods", or the name of another (thousandths)."""
    asked: int
    free: int


ZERO: Final = Amounts()


def from_proto(message: Resources) -> Amounts:
    """Give the message's value."""
    named = message.named_thousandths
    return Amounts(
        message.cpu_millicores,
        message.memory_bytes,
        message.pods,
        tuple(sorted((name, amount) for name, amount in named.items() if amount)) if named else (),
    )


def fill_proto(message: Resources, amounts: Amounts) -> None:
    """Make the message say exactly these amounts."""
    message.cpu_millicores, message.memory_bytes, message.pods, named = amounts
    message.named_thousandths.clear()
    if named:
        message.named_thousandths.update(named)


def to_proto(amounts: Amounts) -> Resources:
    """Give a message that says these amounts."""
    cpu, memory, pods, named = amounts
    return Resources(
        cpu_millicores=cpu,
        memory_bytes=memory,
        pods=pods,
        named_thousandths=dict(named) if named else None,
    )


def add(left: Amounts, right: Amounts) -> Amounts:
    """Sum."""
    cpu, memory, pods, named = left
    more_cpu, more_memory, more_pods, more_named = right
    if more_named:
        named = _merged(named, more_named, 1) if named else more_named
    return Amounts(cpu + more_cpu, memory + more_memory, pods + more_pods, named)


def subtract(left: Amounts, right: Amounts) -> Amounts:
    """Difference; amounts may become negative."""
    cpu, memory, pods, named = left
    less_cpu, less_memory, less_pods, less_named = right
    if less_named:
        named = _merged(named, less_named, -1)
    return Amounts(cpu - less_cpu, memory - less_memory, pods - less_pods, named)


def _merged(left: Named, right: Named, sign: int) -> Named:
    total = dict(left)
    for name, amount in right:
        total[name] = total.get(name, 0) + sign * amount
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


def is_zero(amounts: Amounts) -> bool:
    """Nothing of any resource."""
    return amounts == ZERO


def pod_request(spec: PodSpec) -> Amounts:
    """What a pod is charged: the sum of what its containers ask for, and one pod."""
    cpu = memory = 0
    named: Named = ()
    for container in spec.containers:
        requests = container.resources.requests
        cpu += requests.cpu_millicores
        memory += requests.memory_bytes
        if requests.named_thousandths:
            named = _merged(named, tuple(requests.named_thousandths.items()), 1)
    return Amounts(cpu, memory, 1, named)


def shortfalls(asked: Amounts, free: Amounts) -> list[Shortfall]:
    """Say of which resources more is asked for than is free; what is not asked for never lacks.

    In the order cpu, memory, pods, then the named ones by name. Empty: it fits.
    """
    cpu, memory, pods, named = asked
    free_cpu, free_memory, free_pods, free_named = free
    found: list[Shortfall] = []
    if cpu > free_cpu and cpu > 0:
        found.append(Shortfall("cpu", cpu, free_cpu))
    if memory > free_memory and memory > 0:
        found.append(Shortfall("memory", memory, free_memory))
    if pods > free_pods and pods > 0:
        found.append(Shortfall("pods", pods, free_pods))
    if named:
        there = dict(free_named)
        for name, amount in named:
            if amount > there.get(name, 0) and amount > 0:
                found.append(Shortfall(name, amount, there.get(name, 0)))
    return found
