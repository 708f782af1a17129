"""What the supervisor and the kubelet tell each other through files."""

import json

import pytest
from drumline.kubelet.pod_files import encode_spec, parse_state
from drumline.kubelet.supervisor import encode
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kubelet.pods import make_pod

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT)))
def test_what_is_encoded_is_json(value: dict[str, object]) -> None:
    assert json.loads(encode(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_times_are_encoded_exactly(value: float) -> None:
    assert json.loads(encode(value)) == value


def test_bytes_that_are_no_text_do_not_break_the_state() -> None:
    state = {
        "uid": "u1",
        "boot_id": "b",
        "pid": 1,
        "start_ticks": 2,
        "error": b"cannot run \xff".decode(errors="surrogateescape"),
        "killed": 0,
        "done": True,
        "containers": [],
    }
    parsed = parse_state("u1", json.loads(encode(state)))
    assert parsed.pod.start_problem.startswith("cannot run ")
    parsed.pod.start_problem.encode()


def test_a_state_of_another_pod_is_refused() -> None:
    with pytest.raises(ValueError, match="another pod"):
        parse_state("u1", {"uid": "u2"})


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_a_container_name_that_is_no_file_name_is_refused(name: str) -> None:
    pod = make_pod()
    pod.spec.containers[0].name = name
    with pytest.raises(ValueError, match="cannot be the name of a container"):
        encode_spec(pod, {})
