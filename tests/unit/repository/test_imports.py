"""The import contracts find what they forbid: each is shown an offence."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# A file that is added, and what it imports against which contract.
OFFENCES = {
    "services/apiserver/drumline/apiserver/offence.py": (
        "drumline.kubelet.main",
        "No service imports another",
    ),
    "services/kubelet/drumline/kubelet/offence.py": (
        "drumline.client",
        "No service imports the client or the command line",
    ),
    "sdk/drumline/cli/offence.py": (
        "drumline.nodecontroller.main",
        "The SDK imports no service",
    ),
    "sdk/drumline/model/offence.py": (
        "drumline.process.clock",
        "The SDK's parts lie on one another: command line, client, schedulers, process, model",
    ),
    "services/apiserver/drumline/apiserver/store/offence.py": (
        "drumline.apiserver.domain",
        "The apiserver's parts lie on one another: main, rpc, domain, cache, store",
    ),
    "protos/drumline/api/v1/offence_pb2.py": (
        "drumline.model.names",
        "Generated code imports generated code only",
    ),
}


def lint(tree: Path) -> str:
    """The verdict on the packages of `tree`; -S keeps the editable install of this tree out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    roots = [str(tree / root) for root in project["tool"]["hatch"]["build"]["dev-mode-dirs"]]
    path = os.pathsep.join([*roots, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    call = "from importlinter.cli import lint_imports; lint_imports(no_cache=True, no_logo=True)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", call],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_every_import_contract_finds_its_offence(tmp_path: Path) -> None:
    for folder in ("protos", "sdk", "services"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for name, (imported, _) in OFFENCES.items():
        (tmp_path / name).write_text(f"import {imported}\n")

    said = lint(tmp_path)

    unnoticed = [contract for _, contract in OFFENCES.values() if f"{contract} BROKEN" not in said]
    assert not unnoticed, said
    assert " KEPT" not in said, "a contract is shown no offence"
