"""The headers of a request: ours, the user's with their secrets filled in, and what must be masked
afterwards."""

import base64
from collections.abc import Iterator, Mapping

from tocsin.domain.http_auth import BasicAuth, BearerAuth, OAuth2Auth, Value
from tocsin.domain.instant import format_instant
from tocsin.domain.secrets import SecretRef
from tocsin.domain.target import HttpTarget
from tocsin.targets.assignment import Assignment


def own_headers(assignment: Assignment) -> dict[str, str]:
    """What every request carries. The idempotency key is the execution's identity: the same over retries."""
    execution = assignment.execution
    return {
        "idempotency-key": execution,
        "tocsin-job": assignment.job,
        "tocsin-execution": execution,
        "tocsin-attempt": str(assignment.attempt),
        "tocsin-fire-at": format_instant(assignment.nominal_fire_at),
        "tocsin-lag-ms": str(assignment.lag_ms),
        "traceparent": assignment.traceparent,
    }


def secret_names(target: HttpTarget) -> list[str]:
    """The secrets that a target names. Most name none, and that is found out at once."""
    if not target.headers and target.auth is None and target.path_secret is None:
        return []
    return sorted({value.secret for value in _values(target) if isinstance(value, SecretRef)})


def filled(value: Value, secrets: Mapping[str, str]) -> str:
    """A value as it is sent."""
    return secrets[value.secret] if isinstance(value, SecretRef) else value


def user_headers(target: HttpTarget, secrets: Mapping[str, str], token: str | None = None) -> dict[str, str]:
    """The target's own headers, with the values of its secrets in their places. `token` is what OAuth2
    gave."""
    headers = {name: filled(value, secrets) for name, value in target.headers.items()}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    match target.auth:
        case BearerAuth():
            headers["authorization"] = f"Bearer {filled(target.auth.token, secrets)}"
        case BasicAuth(username=username, password=password):
            headers["authorization"] = f"Basic {_basic(username, password, secrets)}"
    return headers


def confidential(target: HttpTarget, secrets: Mapping[str, str], token: str | None = None) -> list[str]:
    """What must not be seen afterwards: the values, and what was made from them or given for them."""
    made = [] if token is None else [token]
    if isinstance(target.auth, BasicAuth) and secrets:
        made.append(_basic(target.auth.username, target.auth.password, secrets))
    return [*secrets.values(), *made]


def _values(target: HttpTarget) -> Iterator[Value]:
    yield from target.headers.values()
    if target.path_secret is not None:
        yield target.path_secret
    match target.auth:
        case BearerAuth(token=token):
            yield token
        case BasicAuth(username=username, password=password):
            yield username
            yield password
        case OAuth2Auth(client_id=client_id, client_secret=client_secret):
            yield client_id
            yield client_secret


def _basic(username: Value, password: Value, secrets: Mapping[str, str]) -> str:
    pair = f"{filled(username, secrets)}:{filled(password, secrets)}"
    return base64.b64encode(pair.encode()).decode()
