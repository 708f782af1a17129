"""`drumline apply`: makes the objects of manifests, or changes them as far as they can be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumline.cli import failures, output, sources
from drumline.cli.failures import USAGE, CommandError
from drumline.cli.options import Files, NamespaceOption, Recursive
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.api.v1.pod_pb2 import Pod
    from drumline.cli.manifest import Document
    from drumline.client import Client
    from drumline.model.errors import DrumlineError


def apply(
    filename: Files = None,
    recursive: Recursive = False,
    namespace: NamespaceOption = "",
) -> None:
    """Make pods and namespaces from manifests.

    One that is there already is changed where it differs and may be changed.
    Namespaces are made first. --namespace is for pods whose manifest names none.
    """
    if not filename:
        raise CommandError(
            "nothing to apply", "Name manifests with -f; - is standard input.", USAGE
        )
    documents = sources.documents(filename, recursive=recursive)
    failed = with_client(lambda client: apply_documents(client, documents, namespace))
    if failed:
        raise CommandError(
            f"{failed} of {output.count(len(documents), 'object')} could not be applied",
            "Mend what is said above, then apply again: what was applied stays.",
        )


async def apply_documents(client: Client, documents: Sequence[Document], namespace: str) -> int:
    """Apply documents and say of each what became of it; give the number that failed."""
    from drumline.api.v1.pod_pb2 import Pod
    from drumline.model.validation import default_pod

    pods: list[Document] = []
    namespaces: list[Document] = []
    for document in documents:
        if isinstance(document.message, Pod):
            document.message.metadata.namespace = document.message.metadata.namespace or namespace
            default_pod(document.message)
            pods.append(document)
        else:
            namespaces.append(document)
    failed = await _namespaces(client, namespaces) if namespaces else 0
    return failed + (await _pods(client, pods) if pods else 0)


async def _namespaces(client: Client, documents: Sequence[Document]) -> int:
    from drumline.api.v1.namespace_service_pb2 import Namespace
    from drumline.model.errors import AlreadyExistsError

    items = [d.message for d in documents if isinstance(d.message, Namespace)]
    failed = 0
    results = await client.create_namespaces(items)
    for document, result in zip(documents, results, strict=True):
        if isinstance(result.error, AlreadyExistsError):
            _say("namespace", document, "unchanged")
        elif result.error is not None:
            failed += _refused(document, result.error)
        else:
            _say("namespace", document, "created")
    return failed


async def _pods(client: Client, documents: Sequence[Document]) -> int:
    from drumline.api.v1.pod_pb2 import Pod
    from drumline.model.errors import AlreadyExistsError, DrumlineError

    items = [d.message for d in documents if isinstance(d.message, Pod)]
    failed = 0
    results = await client.create_pods(items)
    for document, pod, result in zip(documents, items, results, strict=True):
        if isinstance(result.error, AlreadyExistsError):
            try:
                _say("pod", document, await _change(client, pod))
            except (DrumlineError, CommandError) as error:
                failed += _refused(document, error)
        elif result.error is not None:
            failed += _refused(document, result.error)
        else:
            _say("pod", document, "created")
    return failed


async def _change(client: Client, wanted: Pod) -> str:
    """Make the pod that is there like the one that is wanted; say what was done."""
    from drumline.api.v1.pod_pb2 import PHASE_TERMINATED

    there = await client.get_pod(wanted.metadata.name, wanted.metadata.namespace)
    if there.spec.containers != wanted.spec.containers:
        raise CommandError("it is there already, and its containers cannot be changed; delete it")
    fields = [
        *(
            f"metadata.{name}"
            for name in ("labels", "annotations")
            if getattr(there.metadata, name) != getattr(wanted.metadata, name)
        ),
        *(
            f"spec.{field.name}"
            for field in wanted.spec.DESCRIPTOR.fields
            if field.name != "containers"
            and getattr(there.spec, field.name) != getattr(wanted.spec, field.name)
        ),
    ]
    if not fields:
        ended = there.status.phase == PHASE_TERMINATED
        return "unchanged (it has ended; delete it to run it again)" if ended else "unchanged"
    wanted.metadata.uid = there.metadata.uid
    wanted.metadata.resource_version = there.metadata.resource_version
    await client.update_pod(wanted, fields)
    return f"changed ({', '.join(fields)})"


def _say(kind: str, document: Document, what: str) -> None:
    from drumline.cli.views import full_name

    output.out(f"{full_name(document.message.metadata, kind)} {what}\n")


def _refused(document: Document, error: DrumlineError | CommandError) -> int:
    """Say why an object was refused, with the lines of its file; counts as one."""
    from drumline.cli.views import full_name
    from drumline.model.errors import Violation

    kind = document.message.DESCRIPTOR.name.lower()
    name = full_name(document.message.metadata, kind)
    if isinstance(error, CommandError):
        failures.say(f"{document.file}:{document.line}: {name}: {error.text}")
        return 1
    if not error.violations:
        failures.say(f"{document.file}:{document.line}: {name}: {error.message}")
    for violation in error.violations:
        # Paths begin with the item of the request, such as pods[3].
        field = re.sub(r"^[a-z_]+\[\d+\]\.?", "", violation.field)
        failures.say(str(document.problem(Violation(field, violation.description))))
    return 1
