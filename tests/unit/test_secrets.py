"""Secrets: sealed they tell nothing and open only where they belong; what comes back from a target is
masked."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.http_auth import BasicAuth, BearerAuth
from tocsin.domain.sealing import CannotOpen, SecretBox, new_master_key, read_master_keys
from tocsin.domain.secrets import MASK, Redactor, SecretRef, check_secret_name, check_secret_value
from tocsin.domain.target import HttpTarget, check_target
from tocsin.secret_key import ensure_secret_key, secret_box
from tocsin.settings import Settings
from tocsin.targets.http.headers import confidential, secret_names, user_headers

CANARY = 'canary/"value"+ä 42'


def _box(*texts: str) -> SecretBox:
    return SecretBox([key for text in texts for key in read_master_keys(text, "key")])


def test_what_is_sealed_opens_again_and_looks_different_every_time() -> None:
    box = _box(new_master_key())
    first, second = box.seal(1, "a", b"value"), box.seal(1, "a", b"value")
    assert first != second
    assert b"value" not in first
    assert box.open(1, "a", box.key_id, first) == b"value"


@pytest.mark.parametrize(("tenant_id", "name"), [(2, "a"), (1, "b"), (11, "")])
def test_moved_to_another_tenant_or_name_it_does_not_open(tenant_id: int, name: str) -> None:
    box = _box(new_master_key())
    with pytest.raises(CannotOpen, match="damaged"):
        box.open(tenant_id, name, box.key_id, box.seal(1, "a", b"value"))


def test_a_damaged_or_cut_value_does_not_open() -> None:
    box = _box(new_master_key())
    sealed = box.seal(1, "a", b"value")
    for wrong in (sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[:5], b""):
        with pytest.raises(CannotOpen, match="damaged"):
            box.open(1, "a", box.key_id, wrong)


def test_a_new_key_seals_while_the_old_one_still_opens() -> None:
    old_key, new_key = new_master_key(), new_master_key()
    old = _box(old_key)
    sealed = old.seal(1, "a", b"value")
    both = _box(f"{new_key}, {old_key}")
    assert both.key_id != old.key_id
    assert both.open(1, "a", old.key_id, sealed) == b"value"
    with pytest.raises(CannotOpen, match=old.key_id):
        _box(new_key).open(1, "a", old.key_id, sealed)


def test_a_key_is_read_in_base64_and_hexadecimal_and_nothing_else() -> None:
    raw = bytes(range(32))
    for text in (
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
        raw.hex(),
    ):
        assert read_master_keys(text, "key") == [raw]
    for text in ("", " ", "short", "z" * 64, base64.b64encode(raw[:31]).decode(), "ä" * 43):
        with pytest.raises(Refused) as refused:
            read_master_keys(text, "TOCSIN_SECRET_KEY")
        assert refused.value.field == "TOCSIN_SECRET_KEY"
        assert not text.strip() or text not in str(refused.value)


def test_serve_makes_a_key_once_readable_by_its_owner_only(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    assert secret_box(settings) is None
    file = ensure_secret_key(settings)
    assert file is not None
    assert file.stat().st_mode & 0o777 == 0o600
    written = file.read_text()
    assert ensure_secret_key(settings) == file
    assert file.read_text() == written
    assert secret_box(Settings(secret_key_file=file)) is not None


def test_a_configured_key_is_not_replaced_and_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert ensure_secret_key(Settings(data_dir=tmp_path, secret_key=new_master_key())) is None
    assert not list(tmp_path.iterdir())
    with pytest.raises(Refused) as refused:
        ensure_secret_key(Settings(data_dir=tmp_path, secret_key_file=tmp_path / "none"))
    assert refused.value.field == "TOCSIN_SECRET_KEY_FILE"


def test_a_box_does_not_show_its_key() -> None:
    key = new_master_key()
    assert key not in repr(_box(key))


def test_values_are_masked_as_they_look_in_json_urls_and_base64() -> None:
    redactor = Redactor([CANARY])
    for spelling in (
        CANARY, json.dumps(CANARY), json.dumps(CANARY, ensure_ascii=False), quote(CANARY), quote(CANARY, safe=""),
        base64.b64encode(CANARY.encode()).decode(),
    ):  # fmt: skip
        assert "canary" not in redactor.body(f"<{spelling}>".encode(), truncated=False).decode()
        assert MASK in redactor.text(f"<{spelling}>")
    assert redactor.body(b"x" + CANARY.encode("latin-1") + b"y", truncated=False) == b"x***y"
    assert redactor.text(CANARY.encode().decode("latin-1")) == MASK


def test_of_a_value_that_was_cut_off_not_even_the_beginning_is_kept() -> None:
    redactor = Redactor(["abcdefghij"])
    assert redactor.body(b"echo abcdefgh", truncated=True) == b"echo ***"
    assert redactor.body(b"echo abcdefgh", truncated=False) == b"echo abcdefgh"


def test_a_value_that_holds_another_is_masked_whole() -> None:
    assert Redactor(["abc", "abcdef"]).text("abcdef abc") == "*** ***"


def test_names_and_values_that_cannot_be_used_are_refused_without_being_repeated() -> None:
    for name in ("", "a b", "ä", "a/b", "-a", "a" * 101):
        with pytest.raises(Refused):
            check_secret_name(name, "name")
    for value in ("", " canary", "canary\n", "canary\x00", "€€€", "canary" * 700):
        with pytest.raises(Refused) as refused:
            check_secret_value(value)
        assert not value or value not in refused.value.detail
    check_secret_name("Billing.token_2-x", "name")
    check_secret_value(CANARY)


def test_secrets_are_filled_in_where_a_target_names_them() -> None:
    target = HttpTarget(
        "https://example.com/",
        headers={"X-Key": SecretRef("key"), "X-Plain": "1"},
        auth=BearerAuth(SecretRef("token")),
    )
    check_target(target)
    assert secret_names(target) == ["key", "token"]
    filled = user_headers(target, {"key": "k", "token": "t"})
    assert filled == {"X-Key": "k", "X-Plain": "1", "authorization": "Bearer t"}


def test_basic_credentials_are_encoded_and_the_encoded_form_is_confidential_too() -> None:
    target = HttpTarget("https://example.com/", auth=BasicAuth("Aladdin", SecretRef("password")))
    secrets = {"password": "open sesame"}
    assert user_headers(target, secrets) == {"authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}
    assert confidential(target, secrets) == ["open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        (HttpTarget("https://a.example/", headers={"X": SecretRef("a b")}), "target.headers.X"),
        (HttpTarget("https://a.example/", auth=BearerAuth(SecretRef(""))), "target.auth.token"),
        (HttpTarget("https://a.example/", auth=BearerAuth("a\n")), "target.auth.token"),
        (HttpTarget("https://a.example/", auth=BasicAuth("a:b", "c")), "target.auth.username"),
        (
            HttpTarget("https://a.example/", headers={"authorization": "x"}, auth=BearerAuth("y")),
            "target.auth",
        ),
    ],
)
def test_references_and_credentials_that_cannot_work_are_refused(target: HttpTarget, field: str) -> None:
    with pytest.raises(Refused) as refused:
        check_target(target)
    assert refused.value.field == field
