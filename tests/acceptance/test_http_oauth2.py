"""Targets that want OAuth2: one fetch for many, kept while it is good, and never a word of secret or
token."""

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.acceptance.hostile_server import (
    OK,
    HostileServer,
    Peer,
    Script,
    SeenRequest,
    answering,
    answering_then_close,
    hostile_server,
    inner_listener,
    resetting,
    silent,
)
from tests.acceptance.http_attempts import Attempts, attempts
from tests.acceptance.http_calls import STAND_IN, STAND_IN_ONLY, Client, leads_to, on_both_loops
from tocsin.domain.errors import Refused
from tocsin.domain.http_auth import OAuth2Auth
from tocsin.domain.instant import SECOND
from tocsin.domain.outcome import Outcome, Postponed, Verdict
from tocsin.domain.secrets import SecretRef
from tocsin.domain.target import HttpTarget, check_target
from tocsin.domain.waits import Reason
from tocsin.targets.http.breaker import TRIP_AFTER

SECRET = "s3cr3t+ä:/%"
SECRETS = {"client": SECRET}
TOKEN_LIFE = 3600


def answer_of(status: int, body: Any) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text)


def token_answer(token: str, **fields: Any) -> bytes:
    return answer_of(200, {"access_token": token, "token_type": "Bearer", "expires_in": TOKEN_LIFE} | fields)


def counting(
    server: list[int], make: Callable[[int], bytes] = lambda n: token_answer(f"token-{n}")
) -> Script:
    """Answers the first request with the first token, and so on, over all connections."""

    async def script(peer: Peer) -> None:
        while await peer.read_request():
            server.append(1)
            await peer.send(make(len(server)))

    return script


def target_of(server: HostileServer, tokens: HostileServer, **auth: Any) -> HttpTarget:
    wanted: dict[str, Any] = {
        "token_url": f"http://tokens.example:{tokens.port}/token",
        "client_id": "my client",
        "client_secret": SecretRef("client"),
    }
    return HttpTarget(f"http://target.example:{server.port}/", auth=OAuth2Auth(**wanted | auth))


def bearers(server: HostileServer) -> list[str]:
    return [request.headers["authorization"] for request in server.requests]


@on_both_loops
async def test_a_token_is_asked_for_as_the_rfc_says_and_kept() -> None:
    """The client's name and secret go form-encoded into basic credentials, the rest into the form; one fetch
    serves all."""
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(counting([])) as tokens,
        attempts(SECRETS) as made,
    ):
        target = target_of(server, tokens, scope="jobs:run jobs:read", audience="https://api.example/")
        for _ in range(3):
            assert (await made.outcome(target)).verdict is Verdict.SUCCEEDED
        (asked,) = tokens.requests
        assert asked.line == "POST /token HTTP/1.1"
        assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
        kind, _, pair = asked.headers["authorization"].partition(" ")
        assert kind == "Basic"
        assert base64.b64decode(pair) == b"my+client:s3cr3t%2B%C3%A4%3A%2F%25"
        assert parse_qs(asked.body.decode(), strict_parsing=True) == {
            "grant_type": ["client_credentials"],
            "scope": ["jobs:run jobs:read"],
            "audience": ["https://api.example/"],
        }
        assert bearers(server) == ["Bearer token-1"] * 3


@on_both_loops
async def test_many_executions_wait_for_one_fetch() -> None:
    """Those who come while a token is fetched share it; one who gives up takes it from nobody."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.read_request()
        asked.set()
        await go_on.wait()
        await peer.send(token_answer("shared"))

    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(script) as tokens,
        attempts(SECRETS) as made,
    ):
        target = target_of(server, tokens)
        calls = [asyncio.create_task(made.outcome(target)) for _ in range(20)]
        await asked.wait()
        calls[0].cancel()
        await asyncio.wait(calls[:1])
        go_on.set()
        outcomes = await asyncio.gather(*calls[1:])
        assert {outcome.verdict for outcome in outcomes} == {Verdict.SUCCEEDED}
        assert len(tokens.requests) == 1
        assert bearers(server) == ["Bearer shared"] * 19


@pytest.mark.parametrize(
    ("fields", "good_for"), [({}, 3570), ({"expires_in": "100"}, 90), ({"expires_in": None}, 270)]
)
@on_both_loops
async def test_a_token_is_replaced_shortly_before_it_expires(fields: dict[str, Any], good_for: int) -> None:
    """A tenth of its life early, half a minute at most; five minutes are assumed where nothing is said."""
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(counting([], lambda n: token_answer(f"token-{n}", **fields))) as tokens,
        attempts(SECRETS) as made,
    ):
        target = target_of(server, tokens)
        await made.outcome(target)
        made.clock.advance((good_for - 1) * SECOND)
        await made.outcome(target)
        made.clock.advance(2 * SECOND)
        await made.outcome(target)
        assert bearers(server) == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


@pytest.mark.parametrize("life", [0, -5, 1e-9])
@on_both_loops
async def test_a_token_without_a_life_serves_the_attempt_it_was_fetched_for(life: float) -> None:
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(counting([], lambda n: token_answer(f"token-{n}", expires_in=life))) as tokens,
        attempts(SECRETS) as made,
    ):
        for _ in range(2):
            await made.outcome(target_of(server, tokens))
            made.clock.advance(1)
        assert bearers(server) == ["Bearer token-1", "Bearer token-2"]


@on_both_loops
async def test_tokens_are_kept_apart_by_all_that_they_were_asked_with() -> None:
    """Another tenant, client, scope, audience or value of the secret never gets somebody else's token."""
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(counting([])) as tokens,
        attempts(SECRETS) as made,
    ):
        target = target_of(server, tokens)
        await made.outcome(target)
        await made.outcome(target, tenant_id=2)
        for auth in ({"client_id": "other"}, {"scope": "a"}, {"audience": "a"}):
            await made.outcome(target_of(server, tokens, **auth))
        made.vault.secrets["client"] = "replaced"
        await made.outcome(target)
        await made.outcome(target)
        assert bearers(server) == [f"Bearer token-{n}" for n in (1, 2, 3, 4, 5, 6, 6)]


@on_both_loops
async def test_a_token_that_the_target_refuses_is_dropped_once() -> None:
    """A kept token that is refused is worth another attempt with a new one; a new one that is refused is
    not."""
    refuse = answer_of(401, b"")
    async with (
        hostile_server(answering(OK, refuse, refuse, OK)) as server,
        hostile_server(counting([])) as tokens,
        attempts(SECRETS) as made,
    ):
        outcomes = [await made.outcome(target_of(server, tokens)) for _ in range(4)]
        assert [outcome.verdict for outcome in outcomes] == [
            Verdict.SUCCEEDED,
            Verdict.FAILED,
            Verdict.REJECTED,
            Verdict.SUCCEEDED,
        ]
        assert outcomes[1].error == "the target answered 401; the next attempt fetches a new token"
        assert outcomes[1].detail is not None
        assert outcomes[2].failure == "401"
        assert bearers(server) == [f"Bearer token-{n}" for n in (1, 1, 2, 2)]


def _echo(request: SeenRequest) -> dict[str, str]:
    pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
    return {"error": "invalid_client", "error_description": pair, "secret": SECRET}


async def _echoing(peer: Peer) -> None:
    while request := await peer.read_request():
        await peer.send(answer_of(401, _echo(request)))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (_echoing, "it answered 401 (invalid_client)"),
        (answering(answer_of(400, {"error": f"wrong {SECRET}"})), "it answered 400"),
        (answering(answer_of(500, SECRET.encode())), "it answered 500"),
        (answering(answer_of(302, b"")), "it answered 302"),
        (answering(answer_of(200, b"<html>")), "its answer is not a token"),
        (answering(answer_of(200, {"token": "hidden"})), "its answer is not a token"),
        (answering(answer_of(200, b'{"access_token": "hidden", "pad": "' + b"x" * 70_000 + b'"}')), "not a token"),
        (answering(token_answer("hidden", expires_in="soon")), "its answer is not a token"),
        (answering(token_answer("hidden", token_type="mac")), "its answer is not a bearer token"),
        (answering(token_answer("hidden\r\nX-Evil: 1")), "its answer is not a bearer token"),
        (answering(token_answer("")), "its answer is not a bearer token"),
        (answering_then_close(b""), "closed the connection"),
        (resetting(b""), "the connection broke"),
    ],
)  # fmt: skip
@on_both_loops
async def test_without_a_token_the_attempt_fails_clearly_and_can_be_repeated(
    script: Script, reason: str
) -> None:
    """Whatever the token's host says instead, the target is not called and nothing secret is told."""
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(script) as tokens,
        attempts(SECRETS) as made,
    ):
        outcome = await made.outcome(target_of(server, tokens))
        assert outcome.verdict is Verdict.FAILED
        assert outcome.error is not None
        assert outcome.error.startswith(f"no OAuth2 token from tokens.example:{tokens.port}: ")
        assert reason in outcome.error
        assert outcome.detail is None
        assert not any(word in repr(outcome) for word in ("s3cr3t", "hidden"))
        assert server.requests == []


@on_both_loops
async def test_waiting_for_a_token_ends_in_time_for_a_clear_word() -> None:
    """A token's host that never answers costs half of the attempt's time, and does not count against the
    target."""
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(silent) as tokens,
        attempts(SECRETS) as made,
    ):
        outcome = await made.outcome(target_of(server, tokens), seconds=0.2)
        assert (outcome.verdict, outcome.failure) == (Verdict.FAILED, None)
        assert outcome.error is not None
        assert outcome.error.endswith("no answer within 0.1 s")


@on_both_loops
async def test_a_token_is_not_fetched_from_inside_the_network() -> None:
    """The wall around targets stands around tokens too: a name that leads inside is refused before anything
    is sent."""
    async with (
        hostile_server(answering(OK), host=str(STAND_IN)) as server,
        inner_listener() as inner,
        attempts(SECRETS, Client(STAND_IN_ONLY, leads_to(STAND_IN))) as made,
    ):
        auth = OAuth2Auth(f"http://127.0.0.1:{inner.port}/token", "me", SecretRef("client"))
        outcome = await made.outcome(HttpTarget(f"http://target.example:{server.port}/", auth=auth))
        assert outcome.verdict is Verdict.REJECTED
        assert outcome.error is not None
        assert outcome.error.endswith("the target does not lead to a public address")
        assert inner.visitors == 0
        assert server.requests == []


@on_both_loops
async def test_a_target_that_repeats_the_token_finds_it_masked() -> None:
    async def echo(peer: Peer) -> None:
        while request := await peer.read_request():
            await peer.send(answer_of(200, {"sent": request.headers["authorization"], "also": SECRET}))

    async with (
        hostile_server(echo) as server,
        hostile_server(counting([])) as tokens,
        attempts(SECRETS) as made,
    ):
        outcome = await made.outcome(target_of(server, tokens))
        assert outcome.detail is not None
        assert json.loads(outcome.detail["body"]) == {"sent": "Bearer ***", "also": "***"}


async def _fail_until_at_rest(made: Attempts, target: HttpTarget) -> Postponed:
    for _ in range(TRIP_AFTER):
        assert (await made.outcome(target)).verdict is not Verdict.SUCCEEDED
    postponed = await made.call(target)
    assert isinstance(postponed, Postponed)
    return postponed


@on_both_loops
async def test_a_token_host_that_fails_is_given_a_rest_and_no_attempt_is_spent() -> None:
    """Also when targets at other hosts are well; after the rest a probe brings everything back."""
    script = answering(*[answer_of(503, b"")] * TRIP_AFTER, token_answer("back"))
    async with (
        hostile_server(answering(OK)) as server,
        hostile_server(script) as tokens,
        attempts(SECRETS) as made,
    ):
        target = target_of(server, tokens)
        postponed = await _fail_until_at_rest(made, target)
        assert postponed.waits_for is Reason.HOST_TOKEN
        assert len(tokens.requests) == TRIP_AFTER
        plain = HttpTarget(f"http://target.example:{server.port}/")
        assert (await made.outcome(plain)).verdict is Verdict.SUCCEEDED
        made.clock.advance(postponed.wait)
        assert (await made.outcome(target)).verdict is Verdict.SUCCEEDED


@on_both_loops
async def test_a_host_that_gives_the_token_and_is_the_target_recovers_after_its_rest() -> None:
    """The probe that the breaker lets through may ask for its token there as well."""
    script = answering(*[answer_of(503, b"")] * TRIP_AFTER, token_answer("back"), OK)
    async with hostile_server(script) as server, attempts(SECRETS) as made:
        auth = OAuth2Auth(f"http://target.example:{server.port}/token", "me", SecretRef("client"))
        target = HttpTarget(f"http://target.example:{server.port}/", auth=auth)
        postponed = await _fail_until_at_rest(made, target)
        made.clock.advance(postponed.wait)
        outcome: Outcome = await made.outcome(target)
        assert outcome.verdict is Verdict.SUCCEEDED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_url", "ftp://tokens.example/"),
        ("token_url", "https://user@tokens.example/"),
        ("token_url", ""),
        ("client_id", "a\n"),
        ("client_secret", SecretRef("a b")),
        ("scope", ""),
        ("scope", "a  b"),
        ("scope", 'a"b'),
        ("scope", "a" * 1025),
        ("audience", ""),
        ("audience", "a\n"),
    ],
)  # fmt: skip
def test_what_could_never_be_asked_is_refused_by_field(field: str, value: Any) -> None:
    auth = {"token_url": "https://tokens.example/", "client_id": "me", "client_secret": SecretRef("client")}
    check_target(HttpTarget("https://target.example/", auth=OAuth2Auth(**auth)))
    with pytest.raises(Refused) as refused:
        check_target(HttpTarget("https://target.example/", auth=OAuth2Auth(**auth | {field: value})))
    assert refused.value.field == f"target.auth.{field}"
