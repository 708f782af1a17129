"""A pod's whole way, as a user of the command line sees it."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.user_cluster import UserCluster, until

EXAMPLES = Path(__file__).parents[2] / "examples"


def pod_of(cluster: UserCluster, name: str, namespace: str = "default") -> dict[str, object]:
    found = json.loads(cluster.ok("get", "pod", name, "-n", namespace, "-o", "json"))
    assert isinstance(found, dict)
    return found


def test_the_examples_run_and_end_as_they_say(cluster: UserCluster) -> None:
    said = cluster.ok("apply", "-f", str(EXAMPLES))
    assert "namespace/batch created" in said
    assert "pod/hello created" in said
    assert "too-large" not in said
    names = ["hello", "counter", "failing", "two-containers"]
    cluster.ok("wait", "pod", *names, "--for=terminated", "--timeout=60s")
    cluster.ok("wait", "pod", "-A", "-l", "app=batch", "--for=terminated", "--timeout=60s")
    assert cluster.ok("logs", "hello") == "Hello from Drumline, on Linux.\n"
    assert cluster.ok("logs", "counter", "--tail", "2") == "4\n5\n"
    unnamed = cluster.run("logs", "two-containers")
    assert unnamed.code == 2
    assert "one of first, second\n       Name one with -c." in unnamed.err
    assert cluster.ok("logs", "two-containers", "-c", "first") == "first is here\nfirst is done\n"
    assert "168 primes" in cluster.ok("logs", "primes", "-n", "batch")
    assert "Exit code:  3" in cluster.ok("describe", "pod", "failing")
    rows = [line.split() for line in cluster.ok("get", "pods", "-A").splitlines()]
    assert rows[0] == ["NAMESPACE", "NAME", "STATUS", "NODE", "AGE"]
    assert ["default", "failing", "Terminated", "(FAILED)"] in [row[:4] for row in rows]
    assert ["batch", "primes", "Terminated", "(COMPLETED)"] in [row[:4] for row in rows]

    # Applied again they are as they were; what was read can be applied too.
    again = cluster.ok("apply", "-f", str(EXAMPLES))
    assert "created" not in again
    assert "pod/hello unchanged (it has ended" in again
    written = cluster.ok("get", "pods", "hello", "counter", "-o", "yaml")
    assert len(list(yaml.safe_load_all(written))) == 2
    assert cluster.ok("apply", "-f", "-", given=written).count("unchanged") == 2

    cluster.ok("delete", "-f", str(EXAMPLES))
    assert cluster.run("get", "pod", "hello").code == 3
    assert cluster.run("get", "namespace", "batch").code == 3


def test_a_simulated_pod_runs_on_a_simulated_node(cluster: UserCluster) -> None:
    cluster.ok("apply", "-f", str(EXAMPLES / "simulated"))
    cluster.ok("wait", "pod", "pretender", "--for", "running")
    row = cluster.ok("get", "pod", "pretender", "-o", "wide").splitlines()[1].split()
    assert row[1] == "Running"
    assert row[2].startswith("sim-00")
    cluster.ok("delete", "pod", "pretender")


def test_c1_a_pod_that_fits_nowhere_is_explained_cause_by_cause(cluster: UserCluster) -> None:
    cluster.ok("apply", "-f", str(EXAMPLES / "unplaceable"))
    until(lambda: "verdict" in pod_of(cluster, "too-large"))
    explained = cluster.ok("explain", "too-large")
    assert "pod/too-large cannot be placed: 0 of " in explained
    assert "What would help: a change of the pod, or other nodes: none could" in explained
    rows = [line.split() for line in cluster.ok("describe", "pod", "too-large").splitlines()]
    assert ["22", "INSUFFICIENT_CPU"] in [row[:2] for row in rows]
    assert ["20", "UNTOLERATED_TAINT"] in [row[:2] for row in rows]
    assert "Pending (NO_NODE_FITS)" in cluster.ok("get", "pods", "--phase", "pending")
    waited = cluster.run("wait", "pod", "too-large", "--timeout", "100ms")
    assert waited.code == 4
    assert "22 have too little cpu" in waited.err
    cluster.ok("delete", "pod", "--all")


IMPATIENT = """\
apiVersion: drumline.dev/v1
kind: Pod
metadata: {name: impatient}
spec:
  infeasibleAfter: 1s
  containers:
  - {name: main, command: ["true"], resources: {requests: {cpu: 10000}}}
"""


def test_c1_a_pod_that_does_not_want_to_wait_for_ever_ends_and_says_why(
    cluster: UserCluster,
) -> None:
    cluster.ok("apply", "-f", "-", given=IMPATIENT)
    until(lambda: "verdict" in pod_of(cluster, "impatient"))
    waited = cluster.run("wait", "pod", "impatient", "--for", "assigned", "--timeout", "30s")
    assert waited.code == 1
    assert "INFEASIBLE: on no node 1s after its creation: 0 of " in waited.err
    row = cluster.ok("get", "pods", "-o", "wide").splitlines()[1]
    assert "Terminated (INFEASIBLE)" in row
    assert "what would have helped: a change of the pod, or other nodes" in row
    explained = json.loads(cluster.ok("explain", "pod/impatient", "-o", "json"))
    assert (explained["phase"], explained["reason"]) == ("Terminated", "INFEASIBLE")
    assert "has ended, INFEASIBLE (on no node" in explained["sentences"][0]
    written = cluster.ok("get", "pod", "impatient", "-o", "yaml")
    assert "infeasibleAfter: 1s" in written
    assert "unchanged (it has ended" in cluster.ok("apply", "-f", "-", given=written)
    cluster.ok("delete", "pod", "impatient")
    missing = cluster.run("explain", "impatient")
    assert missing.code == 3
    assert 'there is no pod "impatient" in namespace "default"' in missing.err


def test_run_follows_its_pod_and_ends_as_it_does(cluster: UserCluster) -> None:
    good = cluster.run("run", "good", "--follow", "--rm", "--env", "A=b c", "--",
                       "sh", "-c", 'echo "A is $A"')  # fmt: skip
    assert (good.code, good.out) == (0, "A is b c\n")
    bad = cluster.run("run", "bad", "--follow", "--rm", "--", "sh", "-c", "exit 4")
    assert bad.code == 1
    assert "exit code 4" in bad.err
    missing = cluster.run("run", "missing", "--follow", "--rm", "--", "/no/such/program")
    assert missing.code == 1
    assert "START_FAILED" in missing.err
    assert "There are no pods" in cluster.run("get", "pods").err


def test_a_running_pod_can_be_followed_found_and_stopped(cluster: UserCluster) -> None:
    cluster.ok("run", "ticker", "--label", "app=ticker", "--cpu", "100m", "--",
               "sh", "-c", "while true; do echo tick; sleep 0.05; done")  # fmt: skip
    cluster.ok("wait", "pod", "-l", "app=ticker")
    following = cluster.start("logs", "-f", "ticker")
    assert following.stdout is not None
    assert [following.stdout.readline() for _ in range(3)] == ["tick\n"] * 3
    assert cluster.ok("get", "pods", "-l", "app in (ticker)", "-o", "name") == "pod/ticker\n"
    node = next(n for n in ("node-1", "node-2") if "ticker" in cluster.ok("describe", "node", n))
    refused = cluster.run("delete", "node", node)
    assert refused.code == 1
    assert cluster.ok("delete", "pod", "ticker", "--grace-period", "1") == "pod/ticker deleted\n"
    following.communicate(timeout=30)
    assert following.returncode == 0
    assert cluster.run("delete", "pod", "ticker").code == 3


def test_a_watch_shows_what_changes(cluster: UserCluster) -> None:
    watching = cluster.start("get", "pods", "-w", "-o", "json")
    assert watching.stdout is not None
    cluster.ok("run", "seen", "--", "true")
    phases = []
    while "Terminated" not in phases:
        event = json.loads(watching.stdout.readline())
        assert event["metadata"]["name"] == "seen"
        phases.append(event["status"]["phase"])
    assert phases == sorted(phases, key=["Pending", "Running", "Terminated"].index)
    cluster.ok("delete", "pod", "seen")
    watching.kill()
    watching.communicate()


def test_a_cordoned_node_gets_no_pods(cluster: UserCluster) -> None:
    cluster.ok("cordon", "node-1")
    assert "Ready (cordoned)" in cluster.ok("get", "node", "node-1")
    names = [f"elsewhere-{number}" for number in range(4)]
    for name in names:
        cluster.ok("run", name, "--", "true")
    cluster.ok("wait", "pod", *names, "--for", "assigned")
    nodes = {line.split()[3] for line in cluster.ok("get", "pods", *names).splitlines()[1:]}
    assert "node-1" not in nodes
    cluster.ok("uncordon", "node-1")
    assert "cordoned" not in cluster.ok("get", "node", "node-1")
    cluster.ok("delete", "pod", *names)


def test_apply_changes_what_may_be_changed_and_refuses_the_rest(cluster: UserCluster) -> None:
    manifest = (EXAMPLES / "unplaceable" / "too-large.yaml").read_text()
    cluster.ok("apply", "-f", "-", given=manifest)
    labelled = manifest.replace("name: too-large", "name: too-large\n  labels: {a: b}")
    said = cluster.ok("apply", "-f", "-", given=labelled)
    assert said == "pod/too-large changed (metadata.labels)\n"
    assert "too-large" in cluster.ok("get", "pods", "-l", "a=b")
    refused = cluster.run("apply", "-f", "-", given=manifest.replace("10000", "9999"))
    assert refused.code == 1
    assert "containers cannot be changed" in refused.err
    cluster.ok("delete", "pod", "too-large")


def test_c2_a_refusal_names_line_and_field(cluster: UserCluster) -> None:
    nowhere = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: nowhere}\n"
    nowhere += "spec:\n  containers:\n  - {name: main, command: ['true']}\n"
    refused = cluster.run("apply", "-f", "-", given=nowhere)
    assert refused.code == 1
    assert "<stdin>:" in refused.err
    assert "nowhere" in refused.err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["status"], ["Nodes:", "22: 22 Ready", "apiserver", "scheduler", "nodecontroller"]),
        (["version"], ["Apiserver:", "You:", "admin (groups: admin)"]),
        (["get", "namespaces"], ["default"]),
        (["describe", "namespace", "default"], ["Pods stored"]),
        (["describe", "node", "sim-0001"], ["drumline.dev/simulated=true:NO_SCHEDULE", "pods"]),
    ],
)
def test_the_cluster_tells_of_itself(
    cluster: UserCluster, words: list[str], shown: list[str]
) -> None:
    said = cluster.ok(*words)
    for part in shown:
        assert part in said


def test_every_process_answers_health_checks(cluster: UserCluster) -> None:
    ports = json.loads((cluster.state.path / "plan.json").read_text())["ports"]
    for name in ("apiserver", "scheduler", "nodecontroller"):
        assert cluster.ok("health", f"127.0.0.1:{ports[name]}") == "serving\n"
    assert cluster.run("health", f"127.0.0.1:{ports['etcd']}").code == 5
