"""Manifests: documents whose fields are those of Kubernetes, as messages of the API.

A document has ``apiVersion`` (``v1`` or ``drumline.dev/v1``), ``kind`` (Pod,
Namespace, or List of these), ``metadata`` and, for a pod, ``spec``. Every field of
the contract is taken under its camelCase name, by walking the contract; amounts are
quantities (``100m``, ``64Mi``), enumerations are written like ``NoSchedule``. What
only the cluster writes (uid, versions, times, status, assignment, verdict) may be
there and is passed over, so that what was read can be applied again. Any other
key is refused by its name.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drumline.api.v1.namespace_service_pb2 import Namespace
from drumline.api.v1.pod_pb2 import Pod, PodSpec
from drumline.api.v1.resources_pb2 import Resources
from drumline.cli.documents import DocumentError, Entries, Items, Node, Scalar, parse
from drumline.cli.forms import API_VERSIONS, enum_names
from drumline.model.durations import parse_duration
from drumline.model.errors import Violation
from drumline.model.quantity import parse_quantity
from drumline.model.validation import namespace_to_create, pod_to_create
from drumline.model.validation.common import entry
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

# Written by the cluster, ours or another: passed over.
_NOT_THE_USERS: Mapping[str, frozenset[str]] = {
    "drumline.api.v1.Pod": frozenset({"status", "assignment", "verdict"}),
    "drumline.api.v1.Namespace": frozenset({"status", "usage"}),
    "drumline.api.v1.ObjectMeta": frozenset(
        {
            "uid", "resourceVersion", "requestId", "createTime", "deleteTime",
            "creationTimestamp", "generation", "managedFields", "selfLink",
        }
    ),
}  # fmt: skip

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong in a manifest."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}: {self.path}: {self.text}" if self.path else f"{where}: {self.text}"


class ManifestError(Exception):
    """A file cannot be used; `problems` are all that were found in it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest, and where its fields stand."""

    message: Pod | Namespace
    file: str
    line: int
    lines: Mapping[str, int] = field(repr=False)

    def problem(self, violation: Violation) -> Problem:
        """Find the line that a violation is about, which names a field of the contract."""
        return Problem(
            self.file,
            _nearest(self.lines, violation.field) or self.line,
            _manifest_path(violation.field),
            violation.description,
        )


def read(data: bytes, file: str) -> list[Document]:
    """Give the objects of a text; `file` is its name for people.

    Raises ManifestError with everything that is wrong in it.
    """
    try:
        nodes = parse(data)
    except DocumentError as error:
        text = f"column {error.column}: {error.text}"
        raise ManifestError([Problem(file, error.line, "", text)]) from error
    problems: list[Problem] = []
    found = [_Reader(file, node, problems).document() for node in _unpacked(nodes)]
    if problems:
        raise ManifestError(sorted(problems, key=lambda problem: problem.line))
    return [document for document in found if document is not None]


def _unpacked(nodes: Iterable[Node]) -> Iterable[Node]:
    """Give the objects themselves, also those that a list holds."""
    for node in nodes:
        values = (
            {key.text: value for key, value in node.entries} if isinstance(node, Entries) else {}
        )
        kind, items = values.get("kind"), values.get("items")
        if isinstance(kind, Scalar) and kind.text == "List" and isinstance(items, Items):
            yield from items.items
        else:
            yield node


class _Reader:
    """Turns one document into a message, noting every problem on the way."""

    def __init__(self, file: str, node: Node, problems: list[Problem]) -> None:
        self._file = file
        self._node = node
        self._all_problems = problems
        self._spoiled: list[str] = []
        self._lines: dict[str, int] = {}

    def document(self) -> Document | None:
        node = self._node
        message = self._empty_message()
        if message is None or not isinstance(node, Entries):
            return None
        self._fill(message, node, "", {"apiVersion", "kind"})
        document = Document(message, self._file, node.line, self._lines)
        violations = (
            pod_to_create(message, "")
            if isinstance(message, Pod)
            else namespace_to_create(message, "")
        )
        for violation in violations:
            path = violation.field.removeprefix(".")
            # What could not be read is not also missing, nor is a list of such things.
            if not any(
                path.startswith(spoiled) or path == spoiled.rpartition("[")[0]
                for spoiled in self._spoiled
            ):
                self._all_problems.append(document.problem(Violation(path, violation.description)))
        return document

    def _empty_message(self) -> Pod | Namespace | None:
        node = self._node
        if not isinstance(node, Entries):
            self._refuse(
                node, "", "a document must be an object with apiVersion, kind and metadata"
            )
            return None
        head = {key.text: value for key, value in node.entries if isinstance(value, Scalar)}
        version, kind = head.get("apiVersion"), head.get("kind")
        if version is None or version.text not in API_VERSIONS:
            shown = f"not {version.text!r}" if version else "and is missing"
            self._refuse(
                version or node, "apiVersion", f"must be {' or '.join(API_VERSIONS)}, {shown}"
            )
        if kind is not None and kind.text == "Pod":
            return Pod()
        if kind is not None and kind.text == "Namespace":
            return Namespace()
        shown = f"not {kind.text!r}" if kind else "and is missing"
        self._refuse(kind or node, "kind", f"must be Pod or Namespace, {shown}")
        return None

    def _fill(self, message: Message, node: Entries, path: str, known: Iterable[str] = ()) -> None:
        descriptor = message.DESCRIPTOR
        passed_over = _NOT_THE_USERS.get(descriptor.full_name, frozenset())
        fields = {f.json_name: f for f in descriptor.fields if f.json_name not in passed_over}
        for key, value in node.entries:
            name = key.text
            if name in fields:
                at = f"{path}.{fields[name].name}" if path else fields[name].name
                self._lines[at] = key.line
                if not (isinstance(value, Scalar) and value.kind == "null"):
                    self._field(message, fields[name], value, at)
            elif name == "restartPolicy" and isinstance(message, PodSpec):
                self._restart_policy(value, f"{path}.restart_policy")
            elif name not in passed_over and name not in known:
                self._unknown(key, path, [*fields, *known])

    def _field(self, message: Message, spec: Any, value: Node, path: str) -> None:
        if spec.message_type is not None and spec.message_type.GetOptions().map_entry:
            self._map(getattr(message, spec.name), value, path)
        elif spec.is_repeated:
            if not isinstance(value, Items):
                self._refuse(value, path, "must be a list")
                return
            into = getattr(message, spec.name)
            for index, item in enumerate(value.items):
                at = f"{path}[{index}]"
                self._lines[at] = item.line
                if spec.message_type is not None:
                    self._message(into.add(), item, at)
                else:
                    self._scalar(spec, item, at, into.append)
        elif spec.message_type is not None:
            inner = getattr(message, spec.name)
            inner.SetInParent()
            self._message(inner, value, path)
        else:
            self._scalar(spec, value, path, lambda it: setattr(message, spec.name, it))

    def _message(self, message: Message, value: Node, path: str) -> None:
        if isinstance(message, Duration):
            self._duration(message, value, path)
        elif not isinstance(value, Entries):
            self._refuse(value, path, "must be an object with named fields")
        elif isinstance(message, Resources):
            self._resources(message, value, path)
        else:
            self._fill(message, value, path)

    def _map(self, into: Any, value: Node, path: str) -> None:
        if not isinstance(value, Entries):
            self._refuse(value, path, "must be an object of names and values")
            return
        for key, item in value.entries:
            at = entry(path, key.text)
            self._lines[at] = key.line
            text = self._string(item, at)
            if text is not None:
                into[key.text] = text

    def _scalar(self, spec: Any, value: Node, path: str, accept: Callable[[Any], None]) -> None:
        if spec.type == FieldDescriptor.TYPE_STRING:
            text = self._string(value, path)
            if text is not None:
                accept(text)
        elif spec.enum_type is not None:
            number = self._enum(spec.enum_type, value, path)
            if number is not None:
                accept(number)
        elif isinstance(value, Scalar) and value.kind == "int" and _INTEGER.fullmatch(value.text):
            accept(int(value.text))
        else:
            self._refuse(value, path, "must be a whole number, without quotes")

    def _string(self, value: Node, path: str) -> str | None:
        if isinstance(value, Scalar):
            if value.kind in {"str", "timestamp"}:
                return value.text
            if value.kind == "null":
                self._refuse(value, path, 'must be a string, for an empty one write ""')
            else:
                self._refuse(value, path, f'must be a string, quote it: "{value.text}"')
        else:
            self._refuse(value, path, "must be a string")
        return None

    def _enum(self, spec: Any, value: Node, path: str) -> int | None:
        names = enum_names(spec)
        if isinstance(value, Scalar) and value.text in names:
            return names[value.text]
        shown = f", not {value.text!r}" if isinstance(value, Scalar) else ""
        self._refuse(value, path, f"must be {' or '.join(filter(None, names))}{shown}")
        return None

    def _duration(self, message: Duration, value: Node, path: str) -> None:
        if not isinstance(value, Scalar) or value.kind != "str":
            shown = f", not {value.text!r}" if isinstance(value, Scalar) else ""
            self._refuse(value, path, f"must be a duration, such as 30s, 5m or 1h30m{shown}")
            return
        try:
            message.FromNanoseconds(round(parse_duration(value.text) * 1e9))
        except ValueError as error:
            self._refuse(value, path, str(error))

    def _resources(self, message: Resources, value: Entries, path: str) -> None:
        for key, item in value.entries:
            name = key.text
            own = _OWN_RESOURCES.get(name)
            at = f"{path}.{own}" if own else entry(f"{path}.named_thousandths", name)
            self._lines[at] = key.line
            if not isinstance(item, Scalar) or item.kind in {"bool", "null", "timestamp"}:
                self._refuse(item, at, 'must be a quantity, such as 2, "500m" or "64Mi"')
                continue
            try:
                amount = parse_quantity(item.text, thousandths=own in {None, "cpu_millicores"})
            except ValueError as error:
                self._refuse(item, at, str(error))
                continue
            if own:
                setattr(message, own, amount)
            else:
                message.named_thousandths[name] = amount

    def _restart_policy(self, value: Node, path: str) -> None:
        if not isinstance(value, Scalar) or value.text != "Never":
            shown = f", not {value.text!r}" if isinstance(value, Scalar) else ""
            self._refuse(
                value,
                path,
                f"must be Never or left out{shown}: containers run once and are not restarted",
            )

    def _unknown(self, key: Scalar, path: str, known: list[str]) -> None:
        at = f"{path}.{key.text}" if path else key.text
        close = difflib.get_close_matches(key.text, known, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"known here are {', '.join(sorted(known))}"
        )
        self._refuse(key, at, f"this field is not known; {hint}")

    def _refuse(self, node: Node, path: str, text: str) -> None:
        self._spoiled.append(path)
        self._all_problems.append(Problem(self._file, node.line, _manifest_path(path), text))


_OWN_RESOURCES = {"cpu": "cpu_millicores", "memory": "memory_bytes", "pods": "pods"}


def _manifest_path(path: str) -> str:
    """Write a path of the contract as manifests name its fields."""
    for name, own in _OWN_RESOURCES.items():
        path = re.sub(rf"\.{own}$", f".{name}", path)
    path = path.replace(".named_thousandths[", "[")
    parts = re.split(r"(\[.*?\])", path)
    parts[::2] = [re.sub(r"_([a-z])", lambda m: m[1].upper(), part) for part in parts[::2]]
    return "".join(parts)


def _nearest(lines: Mapping[str, int], path: str) -> int | None:
    """Give the line of a field, or of the nearest one around it that is written out."""
    while path:
        if path in lines:
            return lines[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return None
