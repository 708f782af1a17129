"""Quantities are exact, or refused with a sentence (field report: quantities)."""

import re
from fractions import Fraction

import pytest
from drumline.model.quantity import (
    MAXIMUM,
    format_cpu,
    format_memory,
    format_thousandths,
    parse_quantity,
)
from hypothesis import given
from hypothesis import strategies as st

ACCEPTED = [
    # text, in units (None: refused), in thousandths (None: refused)
    ("0", 0, 0),
    ("2", 2, 2000),
    ("0.1", None, 100),
    (".5", None, 500),
    ("5.", 5, 5000),
    ("+3", 3, 3000),
    ("-0", 0, 0),
    ("100m", None, 100),
    ("1500m", None, 1500),
    ("3000m", 3, 3000),
    ("1u", None, None),
    ("1000u", None, 1),
    ("1000000n", None, 1),
    ("1000000000n", 1, 1000),
    ("1k", 1000, 10**6),
    ("1M", 10**6, 10**9),
    ("1.5G", 1_500_000_000, 1_500_000_000_000),
    ("1T", 10**12, 10**15),
    ("1P", 10**15, None),
    ("1E", None, None),
    ("1Ki", 1024, 1_024_000),
    ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
    ("0.5Ki", 512, 512_000),
    ("0.0009765625Ki", 1, 1000),
    ("64Mi", 67_108_864, 67_108_864_000),
    ("1Ti", 2**40, None),
    ("1Pi", None, None),
    ("1Ei", None, None),
    ("1e3", 1000, 10**6),
    ("1E3", 1000, 10**6),
    ("1e+3", 1000, 10**6),
    ("5e-1", None, 500),
    ("1e-3", None, 1),
    ("1e-4", None, None),
    ("0e999999999", 0, 0),
    ("1000000000000000", 10**15, None),
    ("1000000000000001", None, None),
    ("1000000000000000.1", None, None),
    ("0.30000000000000004", None, None),
    (str(2**63), None, None),
    ("1e999999999", None, None),
    ("1e-999999999", None, None),
    ("1e" + "9" * 62, None, None),
    ("0." + "0" * 50 + "1e51", 1, 1000),
    ("1" + "0" * 50 + "e-50", 1, 1000),
]


@pytest.mark.parametrize(("text", "units", "thousandths"), ACCEPTED)
def test_a_quantity_is_exact_or_refused(
    text: str, units: int | None, thousandths: int | None
) -> None:
    for expected, in_thousandths in ((units, False), (thousandths, True)):
        if expected is None:
            with pytest.raises(ValueError, match=r"too large|whole number"):
                parse_quantity(text, thousandths=in_thousandths)
        else:
            assert parse_quantity(text, thousandths=in_thousandths) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no digits"),
        (".", "no digits"),
        ("m", "no digits"),
        ("e3", "no digits"),
        ("abc", "not a quantity: write a number such as"),
        ("1 Gi", "not a quantity"),
        (" 1", "not a quantity"),
        ("1\n", "not a quantity"),
        ("1.2.3", "not a quantity"),
        ("1e", "not a quantity"),
        ("1e3Ki", "not a quantity"),
        ("1K", "suffixes are n u m k M G"),
        ("1mi", "not a quantity"),
        ("0x10", "not a quantity"),
        ("1_000", "not a quantity"),
        ("\N{ARABIC-INDIC DIGIT ONE}", "not a quantity"),
        ("inf", "not a quantity"),
        ("NaN", "not a quantity"),
        ("-1", "negative; an amount is 0 or more"),
        ("-1m", "negative"),
        ("1" * 65, "65 characters; a quantity has at most 64"),
        ("1e" + "9" * 100_000, "100002 characters"),
        ("0.1", "not a whole number of units; the finest step is one unit"),
        ("10P", "too large; an amount is at most 10^15 units"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refusal:
        parse_quantity(text, thousandths=False)
    assert len(str(refusal.value)) < 300


FACTORS = {
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


@given(
    whole=st.text("0123456789", max_size=20),
    fraction=st.none() | st.text("0123456789", max_size=15),
    tail=st.sampled_from(list(FACTORS)) | st.integers(-200, 200),
    sign=st.sampled_from(["", "+", "-"]),
    thousandths=st.booleans(),
)
def test_arithmetic_is_that_of_fractions(
    whole: str, fraction: str | None, tail: str | int, sign: str, thousandths: bool
) -> None:
    text = sign + whole + ("" if fraction is None else f".{fraction}")
    number = Fraction(int(whole or "0")) + Fraction(int(fraction or "0"), 10 ** len(fraction or ""))
    factor = FACTORS[tail] if isinstance(tail, str) else Fraction(10) ** tail
    text += tail if isinstance(tail, str) else f"e{tail}"
    amount = number * factor * (1000 if thousandths else 1)
    has_digits = bool(whole or fraction)
    good = has_digits and amount <= MAXIMUM and amount.denominator == 1
    if good and not (sign == "-" and amount):
        assert parse_quantity(text, thousandths=thousandths) == amount
    else:
        with pytest.raises(ValueError, match=r"."):
            parse_quantity(text, thousandths=thousandths)


@given(st.text(max_size=80), st.booleans())
def test_any_text_gives_an_amount_or_a_refusal(text: str, thousandths: bool) -> None:
    try:
        amount = parse_quantity(text, thousandths=thousandths)
    except ValueError:
        return
    assert 0 <= amount <= MAXIMUM


@given(st.integers(0, MAXIMUM))
def test_what_is_written_is_read_back(amount: int) -> None:
    assert parse_quantity(format_cpu(amount), thousandths=True) == amount
    assert parse_quantity(format_thousandths(amount), thousandths=True) == amount
    assert parse_quantity(format_memory(amount), thousandths=False) == amount


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (format_cpu(0), "0"),
        (format_cpu(500), "500m"),
        (format_cpu(2000), "2"),
        (format_cpu(2500), "2500m"),
        (format_memory(0), "0"),
        (format_memory(1), "1"),
        (format_memory(1001), "1001"),
        (format_memory(64 * 2**20), "64Mi"),
        (format_memory(3 * 2**30), "3Gi"),
        (format_memory(128 * 10**6), "128M"),
        (format_memory(-(2**20)), "-1Mi"),
        (format_thousandths(0), "0"),
        (format_thousandths(1000), "1"),
        (format_thousandths(2500), "2.5"),
        (format_thousandths(1), "0.001"),
        (format_thousandths(-1500), "-1.5"),
        (format_thousandths(10_000), "10"),
    ],
)
def test_amounts_are_written_as_people_do(written: str, expected: str) -> None:
    assert written == expected
