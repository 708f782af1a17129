"""What is asked of a benchmark is checked before anything is started."""

import pytest

from benchmarks.__main__ import main
from benchmarks.arguments import parser
from benchmarks.load import require_room


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_every_benchmark_of_the_table_has_a_command() -> None:
    for name in (
        "placement",
        "latency",
        "heartbeats",
        "watch",
        "scale",
        "restart",
        "store",
        "bulk",
    ):
        given = parser().parse_args([name])
        assert given.benchmark == name
        assert given.repeat == 1


def test_sizes_are_read_as_nodes_and_pods() -> None:
    given = parser().parse_args(["scale", "--sizes", "10:1000,20:2000"])
    assert given.sizes == ((10, 1000), (20, 2000))


@pytest.mark.parametrize(
    ("sizes", "why"),
    [("10", "invalid literal"), ("10:5000", "do not fit"), ("0:1", "not within")],
)
def test_sizes_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], sizes: str, why: str
) -> None:
    assert why in complaint(capsys, "scale", f"--sizes={sizes}")


def test_numbers_out_of_range_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "not within 1 to 20000" in complaint(capsys, "placement", "--nodes=20001")
    assert "0.02" in complaint(capsys, "heartbeats", "--interval=0.001")


def test_a_flame_graph_is_of_one_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "placement", "--flame=f.svg", "--repeat=2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--flame draws one run" in capsys.readouterr().err


def test_pods_that_the_nodes_do_not_take_are_refused() -> None:
    require_room(1, 110)
    with pytest.raises(ValueError, match="111 do not fit"):
        require_room(1, 111)
