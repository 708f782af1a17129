"""Context files: read, written, refused with a sentence."""

import shutil
from pathlib import Path

import pytest
from drumline.client import context
from drumline.model.errors import FailedPreconditionError
from drumline.process.tls import TlsFiles


def test_a_folder_with_context_and_certificates_can_be_copied(
    tmp_path: Path, tls: tuple[TlsFiles, TlsFiles]
) -> None:
    own = tls[1].ca.parent
    context.save(own / "\U0001f4a5.toml", context.Context(("127.0.0.1:7400",), tls[1]))
    copy = shutil.copytree(own, tmp_path / "copy \U0001f4a5")
    loaded = context.load(copy / "\U0001f4a5.toml")
    assert {path.parent for path in (loaded.tls.ca, loaded.tls.certificate, loaded.tls.key)} == {
        copy
    }
    elsewhere = tmp_path / "config" / "context.toml"
    context.save(elsewhere, loaded)
    assert context.load(elsewhere).tls.ca == copy / "ca.crt"


def test_what_was_saved_is_loaded(tmp_path: Path, tls: tuple[TlsFiles, TlsFiles]) -> None:
    path = tmp_path / "deep" / "context.toml"
    saved = context.Context(("127.0.0.1:7400", "[::1]:7401"), tls[1], tmp_path)
    context.save(path, saved)
    assert context.load(path) == saved
    assert context.state_dir_of(path) == tmp_path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / name).touch()
    path = tmp_path / "context.toml"
    path.write_text('addresses = ["h:1"]\nca = "ca.crt"\ncertificate = "me.crt"\nkey = "me.key"\n')
    assert context.load(path).tls.key == tmp_path / "me.key"


def test_a_missing_context_says_how_to_get_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError, match="drumline up") as caught:
        context.load(tmp_path / "none.toml")
    assert caught.value.reason == "NO_CONTEXT"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("addresses = [", "Unclosed"),
        ('adresses = ["h:1"]', "'adresses'"),
        ("addresses = []", '"addresses"'),
        ('addresses = ["no-port"]', '"addresses"'),
        ('addresses = ["h:99999"]', '"addresses"'),
        ('addresses = ["h:1"]', '"ca"'),
        ('addresses = ["h:1"]\nca = "gone.crt"', "gone.crt"),
    ],
)
def test_a_bad_context_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "context.toml"
    path.write_text(text)
    with pytest.raises(FailedPreconditionError) as caught:
        context.load(path)
    assert caught.value.reason == "BAD_CONTEXT"
    if named != "Unclosed":
        assert named in caught.value.message


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    assert context.default_path({"DRUMLINE_CONTEXT": "/x/y"}) == Path("/x/y")
    named = context.default_path({"XDG_CONFIG_HOME": str(tmp_path)})
    assert named == tmp_path / "drumline" / "context.toml"
