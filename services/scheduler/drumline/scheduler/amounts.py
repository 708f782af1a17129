"""Amounts of resources in sentences: never so rounded that too little looks like enough."""

from drumline.model import quantity


def exactly(resource: str, amount: int) -> str:
    """Write an amount of a resource, in its unit, as it is."""
    if resource == "cpu":
        return quantity.format_cpu(amount)
    if resource == "memory":
        return quantity.format_memory(amount)
    return quantity.format_thousandths(amount)


def at_most(resource: str, amount: int) -> str:
    """Write an amount; of memory, a tenth of a unit exactly and the rest left out."""
    return _tenths(amount, 0) if resource == "memory" else exactly(resource, amount)


def at_least(resource: str, amount: int) -> str:
    """Write an amount; of memory, a begun tenth of a unit as a whole one."""
    return _tenths(amount, 1) if resource == "memory" else exactly(resource, amount)


def _tenths(memory: int, up: int) -> str:
    power = max(0, (memory.bit_length() - 1) // 10)
    shift = 10 * power
    whole, rest = divmod((memory * 10 + up * ((1 << shift) - 1)) >> shift, 10)
    unit = ("", "Ki", "Mi", "Gi", "Ti", "Pi")[power]
    return f"{whole}.{rest}{unit}" if rest and power else f"{whole}{unit}"
