"""Generates from the contracts and checks them: ``protos.py generate|check|lint``."""

import filecmp
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def contracts() -> list[str]:
    """Every contract file, as its path below protos/."""
    return sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))


def includes() -> Path:
    """The folder below which google/rpc/*.proto lie: googleapis-common-protos installs them."""
    spec = importlib.util.find_spec("google.rpc")
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        sys.exit("googleapis-common-protos is not installed: run make install")
    return Path(next(iter(locations))).parent.parent


def protoc(*options: str) -> None:
    """Run protoc over every contract; its complaints end the process."""
    if importlib.util.find_spec("grpc_tools") is None:
        sys.exit(
            f"grpcio-tools, at the version that the project generates with, does not exist for "
            f"Python {sys.version_info.major}.{sys.version_info.minor}. "
            f"Use one of 3.11 to 3.13: make distclean, then make install PYTHON=python3.13"
        )
    paths = [f"-I{PROTOS}", f"-I{includes()}"]
    command = [sys.executable, "-m", "grpc_tools.protoc", *paths, *options]
    done = subprocess.run([*command, *contracts()], cwd=PROTOS, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def generate(target: Path) -> None:
    """Write modules and stubs of every contract below `target`."""
    plugins = Path(sys.executable).parent
    protoc(
        f"--plugin=protoc-gen-mypy={plugins / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={plugins / 'protoc-gen-mypy_grpc'}",
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
    )


def generated(root: Path) -> set[Path]:
    """The generated files below `root`, relative to it."""
    return {path.relative_to(root) for pattern in GENERATED for path in root.rglob(pattern)}


def stale() -> list[str]:
    """What differs between the tree and a fresh generation, one sentence a file."""
    with tempfile.TemporaryDirectory() as folder:
        fresh_root = Path(folder)
        generate(fresh_root)
        fresh, present = generated(fresh_root), generated(PROTOS)
        return [
            *(f"protos/{path}: missing" for path in sorted(fresh - present)),
            *(f"protos/{path}: no contract makes it" for path in sorted(present - fresh)),
            *(
                f"protos/{path}: differs from its contract"
                for path in sorted(fresh & present)
                if not filecmp.cmp(fresh_root / path, PROTOS / path, shallow=False)
            ),
        ]


def lint() -> int:
    """Run buf over a descriptor set: buf itself cannot fetch google/rpc, protoc has it here."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "contracts.binpb"
        protoc("--include_imports", "--include_source_info", f"--descriptor_set_out={image}")
        buf = str(Path(sys.executable).parent / "buf")
        config = ROOT / "buf.yaml"
        command = [buf, "lint", str(image), "--config", str(config), "--path", "drumline"]
        return subprocess.run(command, check=False).returncode


def main() -> int:
    """Do what the only argument says; the exit status says whether all is well."""
    match sys.argv[1:]:
        case ["generate"]:
            generate(PROTOS)
            for path in generated(PROTOS):
                if not (PROTOS / path.parent / (path.name.split("_pb2")[0] + ".proto")).exists():
                    (PROTOS / path).unlink()
            return 0
        case ["check"]:
            complaints = stale()
            for line in complaints:
                print(line)
            if complaints:
                print("Generated code is stale: run make protos and commit what it writes.")
            return 1 if complaints else 0
        case ["lint"]:
            return lint()
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
