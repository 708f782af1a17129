"""The command line itself: usage, exit codes, what a start costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from drumline.cli import failures
from drumline.model import errors

DRUMLINE = [sys.executable, "-c", "from drumline.cli.main import main; main()"]


def drumline(
    *words: str, context: str = "/nowhere/context.toml", given: str = ""
) -> tuple[int, str, str]:
    """Run the command; give its exit code and what it wrote to either stream."""
    done = subprocess.run(
        [*DRUMLINE, *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "DRUMLINE_CONTEXT": context},
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["get", "things"], "'things' is no kind of object"),
        (["get", "pods", "-o", "xml"], "-o is 'xml'"),
        (["get", "pods", "--phase", "late"], "--phase is 'late'"),
        (["get", "pods", "-l", "a in ()"], "at position"),
        (["get", "namespaces", "-w"], "cannot be watched"),
        (["apply"], "nothing to apply"),
        (["apply", "-f", "/nowhere.yaml"], "/nowhere.yaml does not exist"),
        (["run", "x"], "no command to run"),
        (["run", "x", "--cpu", "lots", "--", "true"], "--cpu: 'lots' is not a quantity"),
        (["run", "x", "--env", "A", "--", "true"], "--env is 'A'"),
        (["run", "X", "--", "true"], "error: metadata.name: must be"),
        (["run", "x", "--rm", "--", "true"], "--rm needs --follow"),
        (["wait", "pod"], "name pods"),
        (["wait", "pod", "x", "--for", "sleeping"], "--for is 'sleeping'"),
        (["wait", "pod", "x", "--timeout", "soon"], "--timeout: 'soon' is not a duration"),
        (["wait", "node", "x"], "only pods"),
        (["delete", "pod"], "nothing to delete"),
        (["delete", "pod", "x", "-l", "a=b"], "in several ways"),
        (["delete", "node", "--all"], "for pods only"),
        (["certs", "create", "--dir", "/tmp", "--node", "No_"], "--node is 'No_'"),
        (["certs", "create", "--dir", "/tmp", "--scheduler", ""], "--scheduler is ''"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(words: list[str], complaint: str) -> None:
    code, _, said = drumline(*words)
    assert code == failures.USAGE
    assert complaint in said


def test_a_bad_manifest_ends_with_2_and_tells_every_line() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {nam: x}\n---\na: [\n"
    code, _, said = drumline("apply", "-f", "-", given=text)
    assert code == failures.USAGE
    assert "<stdin>:6: column 1" in said
    code, _, said = drumline("apply", "-f", "-", given=text.partition("---")[0])
    assert code == failures.USAGE
    assert "<stdin>:3: metadata.nam: this field is not known; did you mean name?" in said
    assert "nothing was sent" in said


def test_a_folder_without_manifests_is_told(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.yaml").touch()
    code, _, said = drumline("apply", "-f", str(tmp_path))
    assert code == failures.USAGE
    assert "With -R" in said


@pytest.mark.parametrize("words", [["get", "pods"], ["version"], ["status"], ["cordon", "n"]])
def test_without_a_cluster_it_ends_with_5_and_says_what_to_do(words: list[str]) -> None:
    code, _, said = drumline(*words)
    assert code == failures.UNREACHABLE
    assert "/nowhere/context.toml does not exist" in said
    assert "drumline up" in said


def test_down_without_a_cluster_is_no_failure(tmp_path: Path) -> None:
    code, said, _ = drumline("down", "--state-dir", str(tmp_path / "none"))
    assert code == 0
    assert "No cluster runs" in said
    assert not (tmp_path / "none").exists()


def test_delete_of_a_state_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    (tmp_path / "tls").mkdir()
    assert drumline("down", "--delete", "--state-dir", str(tmp_path))[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_certificates_are_made_once(tmp_path: Path) -> None:
    words = ["certs", "create", "--dir", str(tmp_path), "--node", "a", "--address", "h:1"]
    words += ["--scheduler", "mine"]
    code, said, _ = drumline(*words)
    assert code == 0
    names = {"ca", "etcd", "apiserver", "scheduler", "nodecontroller", "simulator", "a", "admin"}
    names.add("scheduler-mine")
    made = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.name for path in made} == {
        "context.toml", *(f"{n}.crt" for n in names), *(f"{n}.key" for n in names)
    }  # fmt: skip
    assert all((path.stat().st_mode & 0o077) == 0 for path in made if path.suffix == ".key")
    assert str(tmp_path / "a.crt") in said
    assert drumline(*words)[0] == 0
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == made


def test_output_that_cannot_be_written_is_a_failure_in_one_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*DRUMLINE, "certs", "create", "--dir", str(tmp_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == failures.FAILED
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


def test_health_of_a_process_that_is_not_there_ends_with_5(tmp_path: Path) -> None:
    drumline("certs", "create", "--dir", str(tmp_path))
    words = [f"--{w}={tmp_path / f}" for w, f in
             (("ca", "ca.crt"), ("certificate", "admin.crt"), ("key", "admin.key"))]  # fmt: skip
    code, _, said = drumline("health", "127.0.0.1:1", *words)
    assert code == failures.UNREACHABLE
    assert "connection refused" in said


def test_help_needs_nothing_heavy() -> None:
    program = (
        "import sys\nfrom drumline.cli import main\n"
        "heavy = {'grpc', 'google.protobuf', 'yaml', 'rich', 'cryptography', 'structlog'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NotFoundError("x"), failures.NOT_FOUND),
        (errors.UnavailableError("x"), failures.UNREACHABLE),
        (errors.DeadlineExceededError("x"), failures.TIMED_OUT),
        (errors.InvalidArgumentError("x"), failures.FAILED),
        (errors.FailedPreconditionError("x", reason="NO_CONTEXT"), failures.UNREACHABLE),
        (errors.FailedPreconditionError("x"), failures.FAILED),
    ],
)
def test_exit_codes_tell_errors_apart(error: errors.DrumlineError, code: int) -> None:
    assert failures.code_of(error) == code
