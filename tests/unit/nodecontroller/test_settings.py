"""Settings of the nodecontroller."""

import pytest
from drumline.nodecontroller import main
from drumline.nodecontroller.settings import Settings
from drumline.process.settings import SettingsError, load


def test_defaults_are_those_of_the_architecture() -> None:
    rules = load(Settings, "nodecontroller", [], {}).rules
    assert rules.interval(1) == 10
    assert rules.interval(10_000) == 10
    assert rules.interval(25_000) == 25
    assert rules.grace_after(10) == 40
    assert rules.grace_after(25) == 100


def test_an_instance_is_named_by_host_and_process_unless_it_is_given_a_name() -> None:
    assert ":" in Settings().instance
    assert Settings(instance_id="left").instance == "left"


@pytest.mark.parametrize("flag", ["--grace", "--beat-interval", "--beats-per-second-bound"])
def test_times_and_bounds_are_positive(flag: str) -> None:
    with pytest.raises(SettingsError, match=flag):
        load(Settings, "nodecontroller", [flag, "0"], {})


async def test_an_apiserver_has_to_be_named() -> None:
    with pytest.raises(SettingsError, match="--apiserver"):
        await main.run(Settings(apiserver=()))
