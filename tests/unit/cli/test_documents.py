"""Bad input to the YAML reader: named by line and column, and bounded."""

import contextlib

import pytest
from drumline.cli import documents
from drumline.cli.documents import DocumentError, Entries, Items, Scalar, parse
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: b\nc: [1, 2\nd: e\n", 3, 2),
        ("a: b\n  c: d\n", 2, 4),
        ("a: 'open\n", 2, 1),
        ("a: 1\nb: 2\na: 3\n", 3, 1),
        ("a:\n\tb: c\n", 2, 1),
        ("? [a]\n: b\n", 1, 3),
        ("a: !!python/object:os.system x\n", 1, 4),
        ("a: *nowhere\n", 1, 4),
        ("a: &x [*x]\n", 1, 8),
        ("a: b\nc: \x07\n", 2, 4),
    ],
)
def test_what_does_not_parse_names_line_and_column(text: str, line: int, column: int) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(text.encode())
    assert (caught.value.line, caught.value.column) == (line, column)


def test_bytes_that_are_no_text_are_found() -> None:
    with pytest.raises(DocumentError, match="UTF-8") as caught:
        parse(b"a: b\nc: \xff\n")
    assert (caught.value.line, caught.value.column) == (2, 4)


def test_aliases_stand_for_what_they_name() -> None:
    (document,) = parse(b"a: &x {b: c}\nd: *x\n")
    assert isinstance(document, Entries)
    assert document.entries[0][1] is document.entries[1][1]


def test_a_small_file_does_not_become_a_large_one() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for n in range(1, 12):
        inside = ", ".join([f"*a{n - 1}"] * 10)
        bomb += f"a{n}: &a{n} [{inside}]\n"
    with pytest.raises(DocumentError, match="more than 500000 values"):
        parse(bomb.encode())


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(DocumentError, match="nest"):
        parse(text.encode())


def test_size_is_bounded() -> None:
    with pytest.raises(DocumentError, match="more than 16 MiB"):
        parse(b"#" * (documents.MAXIMUM_BYTES + 1))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", "str"),
        ("'1'", "str"),
        ("!!str 1", "str"),
        ("1", "int"),
        ("1.5", "float"),
        ("1e3", "str"),
        ("yes", "bool"),
        ("~", "null"),
        ("2020-01-01", "timestamp"),
    ],
)
def test_scalars_keep_their_text_and_kind(text: str, kind: str) -> None:
    (document,) = parse(f"[{text}]".encode())
    assert isinstance(document, Items)
    (item,) = document.items
    assert isinstance(item, Scalar)
    assert item.kind == kind


@given(st.binary(max_size=200) | st.text("{}[]:,-&*!|>'\"#%@` \nab1\t").map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(DocumentError):
        parse(data)
