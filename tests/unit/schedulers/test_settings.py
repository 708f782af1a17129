"""A scheduler's process is told where the cluster is, like every other."""

import pytest
from drumline.process.settings import SettingsError, load
from drumline.schedulers import SchedulerSettings


def test_the_program_names_its_scheduler_and_its_variables() -> None:
    environ = {"DRUMLINE_BEST_FIT_APISERVER": "a:1,b:2", "DRUMLINE_BEST_FIT_INSTANCE_ID": "one"}
    told = load(SchedulerSettings, "best-fit", [], environ)
    assert told.apiserver == ("a:1", "b:2")
    assert (told.name("best-fit"), told.instance) == ("best-fit", "one")
    told = load(SchedulerSettings, "best-fit", ["--scheduler-name", "other"], {})
    assert told.name("best-fit") == "other"
    assert told.instance


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--scheduler-name", "Best Fit"], "--scheduler-name is 'Best Fit'"),
        (["--apiserver", ","], "--apiserver is empty"),
    ],
)
def test_a_bad_setting_is_named(flags: list[str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load(SchedulerSettings, "best-fit", flags, {}).name("best-fit")
