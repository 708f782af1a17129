"""How manifests write kinds, enumerations and amounts, for what reads and what writes them."""

import re
from typing import Any

from drumline.api.v1.resources_pb2 import Resources
from drumline.model.quantity import format_cpu, format_memory, format_thousandths

API_VERSIONS = ("v1", "drumline.dev/v1")


def enum_names(spec: Any) -> dict[str, int]:
    """Give an enumeration's values by their names in manifests; "" is the unspecified one."""
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spec.name).upper() + "_"
    return {
        "" if value.number == 0 else _camel(value.name.removeprefix(prefix)): value.number
        for value in spec.values
    }


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def quantities(message: Resources) -> dict[str, str]:
    """Write amounts by the names of their resources, as manifests do."""
    found = {}
    if message.cpu_millicores:
        found["cpu"] = format_cpu(message.cpu_millicores)
    if message.memory_bytes:
        found["memory"] = format_memory(message.memory_bytes)
    if message.pods:
        found["pods"] = str(message.pods)
    for name, amount in sorted(message.named_thousandths.items()):
        found[name] = format_thousandths(amount)
    return found
