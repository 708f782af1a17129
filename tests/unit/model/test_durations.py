"""Durations are read as people write them, or refused with a sentence."""

import pytest
from drumline.model.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("50ms", 0.05),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("1m0.5s", 60.5),
        ("8760h", 31_536_000.0),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-1s", "1 s", "1.s", ".5s", "1d", "1e3s", "nan", "infs", "1s\n", "1s2"]
)
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write a number with its unit"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["8761h", "99999999999999s"])
def test_a_duration_beyond_a_year_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at most a year"):
        parse_duration(text)


def test_an_endless_text_is_refused_shortened() -> None:
    with pytest.raises(ValueError, match="is not a duration") as refusal:
        parse_duration("9" * 100_000 + "s")
    assert len(str(refusal.value)) < 200
