"""Credentials in plain text are found by where they stand, and nothing else is taken for one."""

from typing import Any

import pytest

from tocsin.domain.errors import Refused
from tocsin.domain.http_auth import BasicAuth, BearerAuth
from tocsin.domain.plain_secrets import CODE, check_plain_secrets
from tocsin.domain.secrets import SecretRef
from tocsin.domain.target import HttpTarget, NoopTarget

URL = "https://example.com/x"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, "target.headers.Authorization"),
        ({"headers": {"x-api-key": "x"}}, "target.headers.x-api-key"),
        ({"headers": {"X-Auth-Token": "x"}}, "target.headers.X-Auth-Token"),
        ({"headers": {"Cookie": "session=1"}}, "target.headers.Cookie"),
        ({"headers": {"X-Shop-Secret": "x"}}, "target.headers.X-Shop-Secret"),
        ({"auth": BearerAuth("x")}, "target.auth.token"),
        ({"auth": BasicAuth("me", "x")}, "target.auth.password"),
        ({"url": f"{URL}?a=1&token=x"}, "target.url"),
        ({"url": f"{URL}?api_key=x"}, "target.url"),
        ({"url": f"{URL}?PASSWORD=x#f"}, "target.url"),
    ],
)
def test_a_credential_in_plain_text_is_refused_with_how_to_write_it(
    fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        check_plain_secrets(HttpTarget(**({"url": URL} | fields)))
    assert (refused.value.field, refused.value.code) == (field, CODE)
    assert "tocsin secrets put" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "fields",
    [
        {
            "headers": {
                "Authorization": SecretRef("a"),
                "X-Api-Key": SecretRef("b"),
                "X-Key-Id": "7",
                "Accept": "x",
            }
        },
        {"headers": {"Authorization": "", "X-Tokens-Left": "3", "Idempotence": "x"}},
        {"auth": BearerAuth(SecretRef("a"))},
        {"auth": BasicAuth("me", SecretRef("a"))},
        {"url": f"{URL}/token?page=2&tokens=3&token="},
        {"url": "https://[bad?token"},
    ],
)
def test_secrets_by_name_and_words_like_them_are_let_through(fields: dict[str, Any]) -> None:
    check_plain_secrets(HttpTarget(**({"url": URL} | fields)))
    check_plain_secrets(NoopTarget())
