"""A bad setting stops the start with its name."""

import pytest
from drumline.process.settings import SettingsError, load
from drumline.scheduler.settings import Settings


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--scoring", "best"], "--scoring is 'best', and must be spread or pack"),
        (["--scheduler-name", "Default"], "--scheduler-name is 'Default'"),
        (["--apiserver", " , "], "--apiserver is empty"),
    ],
)
def test_a_bad_setting_is_named(flags: list[str], named: str) -> None:
    settings = load(Settings, "scheduler", flags, {})
    with pytest.raises(SettingsError, match=named):
        _ = settings.plan


def test_settings_come_from_the_environment_too() -> None:
    environ = {"DRUMLINE_SCHEDULER_SCORING": "pack", "DRUMLINE_SCHEDULER_APISERVER": "a:1,b:2"}
    settings = load(Settings, "scheduler", ["--instance-id", "one"], environ)
    assert settings.apiserver == ("a:1", "b:2")
    assert (settings.plan.scoring, settings.plan.instance_id) == ("pack", "one")
    assert (settings.plan.scheduler_name, settings.plan.safety_retry_seconds) == ("default", 60.0)
