"""The tree is what packaging, type checks and imports rely on."""

import importlib
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("namespace", ["drumline", "drumline/kubelet"])
def test_a_package_split_over_several_roots_has_no_init_module(namespace: str) -> None:
    hiding = [root for root in SOURCES if (ROOT / root / namespace / "__init__.py").exists()]
    assert not hiding, "one of these would hide the other roots"


def test_every_root_is_installed_and_checked() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert sorted(wheel["sources"]) == sorted(SOURCES)
    assert sorted(wheel["only-include"]) == sorted(f"{root}/drumline" for root in SOURCES)
    assert sorted(PROJECT["tool"]["mypy"]["mypy_path"].split(":")) == sorted(SOURCES)


def test_every_package_says_that_it_is_typed() -> None:
    packages = {
        path.parent
        for root in SOURCES
        for pattern in ("drumline/*/*.py", "drumline/*/v1*/*.py")
        for path in (ROOT / root).glob(pattern)
    }
    assert not [path for path in sorted(packages) if not (path / "py.typed").exists()]


def test_every_contract_lies_beside_its_generated_code() -> None:
    protos = ROOT / "protos"
    expected = {
        path.with_name(path.stem + suffix)
        for path in protos.rglob("*.proto")
        for suffix in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
    }
    assert expected
    assert expected == {path for path in protos.rglob("*_pb2*.py*") if path.suffix != ".pyc"}


@pytest.mark.parametrize("script", sorted(PROJECT["project"]["scripts"]))
def test_every_command_has_its_function(script: str) -> None:
    module, function = PROJECT["project"]["scripts"][script].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_tested_version_is_an_allowed_one() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
        if "==" in line
    )
    pins = {name.lower(): version for name, version in pins.items()}
    extras = PROJECT["project"]["optional-dependencies"]
    allowed = [
        *PROJECT["project"]["dependencies"],
        *(item for name in extras for item in extras[name]),
    ]
    wrong = [
        item
        for item in map(Requirement, allowed)
        if item.name != PROJECT["project"]["name"]
        and not item.specifier.contains(pins.get(item.name.lower(), "0"))
    ]
    assert not wrong


def test_every_check_that_can_fail_has_its_fix() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    checks = {name.removeprefix("verify-") for name in targets if name.startswith("verify-")}
    assert checks
    assert checks == {name.removeprefix("fix-") for name in targets if name.startswith("fix-")}


# Spelled in pieces, so that this file does not find itself.
LOCAL = [
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npm" + r"js\.(com|org)",
    "deb" + r"\.debian\.org",
    r"(?<![\w.-])/" + r"(home|root|work|Users)/",
    "index-" + "url *=",
]


def test_no_file_names_a_registry_or_a_folder_of_one_machine() -> None:
    pattern = re.compile("|".join(LOCAL).encode())
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked_files()
        for number, line in enumerate(path.read_bytes().splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found


def test_no_lock_file_is_tracked() -> None:
    locks = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}
    assert not [path for path in tracked_files() if path.name in locks]
