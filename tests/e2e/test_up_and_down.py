"""`drumline up` and `drumline down`: nothing is left behind, whatever ended the cluster."""

import json
import os
import signal
import socket
import ssl

import pytest
from drumline.cli.up import leftovers
from drumline.process.tls import TlsFiles

from tests.support.user_cluster import UserCluster, processes_with, until


def sleeper(cluster: UserCluster) -> str:
    """Run a pod whose processes leave their group; give what its shells' scripts hold."""
    mark = f": {cluster.folder.name}"
    script = f"setsid sh -c 'sleep 1000; {mark}' & sleep 1000; {mark}"
    cluster.ok("run", "sleeper", "--", "sh", "-c", script)
    cluster.ok("wait", "pod", "sleeper")
    until(lambda: len(processes_with(mark)) >= 2)
    return mark


def test_a_cluster_ends_with_its_pods_and_comes_back_with_its_state(
    new_cluster: UserCluster,
) -> None:
    said = new_cluster.ok("up", "--detach", "--nodes", "1")
    assert "etcd 3." in said
    assert "1 node ready" in said
    mark = sleeper(new_cluster)
    assert set(new_cluster.living()) == {
        "supervisor", "etcd", "apiserver", "nodecontroller", "scheduler", "node-1",
    }  # fmt: skip
    again = new_cluster.run("up")
    assert again.code == 1
    assert "runs from" in again.err
    etcd = new_cluster.processes().components["etcd"]
    new_cluster.ok("down")
    assert "Traceback" not in new_cluster.state.log("up").read_text()
    assert not etcd.lives
    assert new_cluster.living() == []
    assert processes_with(mark) == []
    gone = new_cluster.run("get", "pods")
    assert gone.code == 5
    assert "drumline up" in gone.err

    new_cluster.ok("up", "--detach")
    assert "Terminated (NODE_STOPPED)" in new_cluster.ok("get", "pods")
    assert new_cluster.ok("run", "next", "--follow", "--", "echo", "works") == "works\n"


def test_ctrl_c_ends_a_cluster_in_the_foreground(new_cluster: UserCluster) -> None:
    running = new_cluster.start("up", "--nodes", "1", "--simulated-nodes", "3")
    assert running.stdout is not None
    lines: list[str] = []
    while not lines or "The cluster is up" not in lines[-1]:
        lines.append(running.stdout.readline())
        assert lines[-1], running.communicate()
    assert any("4 nodes ready" in line for line in lines)
    mark = sleeper(new_cluster)
    processes = new_cluster.processes()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "its state stays in" in out
    assert err == ""
    assert not any(process.lives for process in processes.components.values())
    assert processes_with(mark) == []


def test_down_ends_what_a_killed_supervisor_left(new_cluster: UserCluster) -> None:
    new_cluster.ok("up", "--detach", "--nodes", "1")
    mark = sleeper(new_cluster)
    processes = new_cluster.processes()
    os.kill(processes.supervisor.pid, signal.SIGKILL)
    until(lambda: not processes.supervisor.lives)
    assert all(process.lives for process in processes.components.values())
    new_cluster.ok("down")
    assert not any(process.lives for process in processes.components.values())
    assert processes_with(mark) == []


def test_up_ends_what_a_killed_supervisor_left_and_goes_on(new_cluster: UserCluster) -> None:
    new_cluster.ok("up", "--detach", "--nodes", "1")
    processes = new_cluster.processes()
    os.kill(processes.supervisor.pid, signal.SIGKILL)
    until(lambda: not processes.supervisor.lives)
    said = new_cluster.ok("up", "--detach")
    assert "was not ended in order" in said
    assert not any(process.lives for process in processes.components.values())
    assert "Ready" in new_cluster.ok("get", "nodes")


def test_pods_of_a_killed_kubelet_are_ended_too(new_cluster: UserCluster) -> None:
    new_cluster.ok("up", "--detach", "--nodes", "1")
    mark = sleeper(new_cluster)
    processes = new_cluster.processes()
    for process in (processes.supervisor, *processes.components.values()):
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: new_cluster.living() == [])
    assert processes_with(mark)
    assert leftovers.end_pods(new_cluster.state) > 0
    assert processes_with(mark) == []


def test_logs_that_cannot_be_written_stop_nothing(new_cluster: UserCluster) -> None:
    names = ("up", "apiserver", "scheduler", "nodecontroller", "node-1")
    for log in map(new_cluster.state.log, names):
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log.symlink_to("/dev/full")
    new_cluster.ok("up", "--detach", "--nodes", "1")
    killed = new_cluster.processes().components["apiserver"]
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: new_cluster.processes().components["apiserver"].pid != killed.pid)
    assert new_cluster.ok("run", "next", "--follow", "--", "echo", "works") == "works\n"


def test_a_smaller_cluster_forgets_the_nodes_it_no_longer_has(new_cluster: UserCluster) -> None:
    new_cluster.ok("up", "--detach", "--nodes", "2", "--simulated-nodes", "5")
    new_cluster.ok("down")
    said = new_cluster.ok("up", "--detach", "--nodes", "1", "--simulated-nodes", "0")
    assert "Forgot 6 nodes" in said
    assert new_cluster.ok("get", "nodes", "-o", "name") == "node/node-1\n"


def test_an_etcd_that_cannot_run_is_told(new_cluster: UserCluster) -> None:
    program = new_cluster.folder / "etcd"
    program.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo etcd Version: 3.6.0 && exit\n"
        "echo the disk is on fire >&2\nexit 7\n"
    )
    program.chmod(0o755)
    for words in (["up"], ["up", "--detach"]):
        done = new_cluster.run(*words, "--etcd", str(program))
        assert done.code == 1
        assert "etcd does not stay up" in done.err
        assert "the disk is on fire" in done.err
        assert new_cluster.living() == []


def test_the_context_of_another_cluster_is_left_alone(new_cluster: UserCluster) -> None:
    foreign = 'addresses = ["far:1"]\nca = "a"\ncertificate = "b"\nkey = "c"\n'
    new_cluster.context.write_text(foreign)
    said = new_cluster.ok("up", "--detach", "--nodes", "0")
    assert "names another cluster and stays" in said
    assert new_cluster.context.read_text() == foreign
    own = new_cluster.state.context
    assert "admin" in new_cluster.ok("--context", str(own), "version")


def test_a1_only_apiservers_are_let_into_etcd(new_cluster: UserCluster) -> None:
    new_cluster.ok("up", "--detach", "--nodes", "0")
    plan = json.loads((new_cluster.state.path / "plan.json").read_text())
    address = ("127.0.0.1", plan["ports"]["etcd"])
    asked = b"GET /version HTTP/1.0\r\n\r\n"
    with socket.create_connection(address) as plain:
        plain.sendall(asked)
        assert b"etcdserver" not in plain.recv(1000)
    # A certificate of the cluster is none of etcd's authority.
    tls = TlsFiles.in_folder(new_cluster.state.tls, "admin")
    context = ssl.create_default_context(cafile=str(new_cluster.state.etcd_tls / "ca.crt"))
    context.load_cert_chain(tls.certificate, tls.key)
    with socket.create_connection(address) as raw, pytest.raises((ssl.SSLError, ConnectionError)):
        _ask(context.wrap_socket(raw, server_hostname="127.0.0.1"), asked)


def _ask(connection: ssl.SSLSocket, question: bytes) -> bytes:
    with connection:
        connection.sendall(question)
        return connection.recv(1000)
