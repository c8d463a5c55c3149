"""What a route is: a handler and the types of what goes in and out.

The table of endpoints is the one description of the API: requests are decoded and checked by it, the OpenAPI
document is generated from it, and tests walk it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from tocsin.domain.errors import Refused
from tocsin.domain.instant import Instant, parse_instant
from tocsin.domain.job import check_text
from tocsin.domain.keys import Scope
from tocsin.domain.limits import TenantLimits

if TYPE_CHECKING:
    from tocsin.api.context import Context
    from tocsin.api.trail import Trail

MAX_PAGE = 500
DEFAULT_PAGE = 50
MAX_REASON = 500


class Asker(msgspec.Struct, frozen=True):
    """Who asks, and for whom."""

    tenant_id: int
    key_id: str
    scopes: frozenset[Scope]
    tenant: str = ""
    limits: TenantLimits = TenantLimits()
    """Those in force for the tenant, defaults included."""
    tenant_named: bool = False
    """Whether an operator named the tenant to act for."""
    in_browser: bool = False
    """Whether it came with a session's cookie instead of a key."""

    @property
    def operator(self) -> bool:
        """Whether the key is an operator's."""
        return Scope.ADMIN in self.scopes

    @property
    def only_tenant(self) -> int | None:
        """The tenant that the asker's sight ends at; None for an operator who named none."""
        return None if self.operator and not self.tenant_named else self.tenant_id


NOBODY: Final = Asker(0, "", frozenset())
"""Who asks where no key is needed."""


class ApiCall(msgspec.Struct, frozen=True):
    """A checked request on its way to a handler."""

    context: "Context"
    asker: Asker
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None
    request: Any = None
    trail: "Trail | None" = None
    """Where the request is noted, if it changes something."""

    def limit(self) -> int:
        """The page size asked for."""
        text = self.query.get("limit", str(DEFAULT_PAGE))
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MAX_PAGE):
            raise Refused(f"limit is a number from 1 to {MAX_PAGE}", field="limit")
        return int(text)

    def reason(self) -> str | None:
        """Why the asker does this, if it said so."""
        reason: str | None = self.body.reason if self.body is not None else None
        check_text(reason, "reason", MAX_REASON)
        return reason

    def note(self, object_: str | None = None, *, before: Any = None, after: Any = None) -> None:
        """What the audit log should say about this call, where nothing else tells it. Never a secret."""
        if self.trail is not None:
            self.trail.note(object_, before=before, after=after)

    def changed_nothing(self) -> None:
        """Leave nothing in the audit log: what was asked for was done before."""
        if self.trail is not None:
            self.trail.leaves_nothing()

    def noting_job(self, job_id: UUID, action: str) -> AbstractContextManager[None]:
        """Note what happens inside to a job that the path does not name; this call leaves no other entry."""
        return nullcontext() if self.trail is None else self.trail.noting_job(job_id, action)

    def words(self, name: str) -> tuple[str, ...]:
        """A query parameter that takes several values, separated by commas."""
        return tuple(word.strip() for word in self.query.get(name, "").split(",") if word.strip())

    def instant(self, name: str) -> Instant | None:
        """A query parameter that names an instant."""
        text = self.query.get(name)
        return None if text is None else parse_instant(text, name)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """A query parameter that takes one of a few values."""
        value = self.query.get(name)
        if value is not None and value not in allowed:
            raise Refused(f"{value[:40]!r} is not one of {', '.join(allowed)}", field=name)
        return value


class Reply(msgspec.Struct, frozen=True):
    """An answer that is more than a body. `status` None is the endpoint's own."""

    body: Any
    status: int | None = None
    headers: dict[str, str] = {}
    cookies: tuple[str, ...] = ()


class Parameter(msgspec.Struct, frozen=True):
    """A query parameter."""

    name: str
    about: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})


LIMIT = Parameter(
    "limit", "Page size", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE}
)
CURSOR = Parameter("cursor", "`next_cursor` of the page before")
BOOLEAN = {"type": "string", "enum": ["true", "false"]}
INSTANT = {"type": "string", "format": "date-time"}
"""The schema of a parameter that names an instant."""

Handler = Callable[[ApiCall], Awaitable[Any]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of the API."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any
    scope: Scope = Scope.READ
    keyless: bool = False
    """Whether it is asked before there is a key or session: then the asker is `NOBODY`, and the handler
    checks."""
    status: int = 200
    answer_kind: str = "application/json"
    other_statuses: tuple[int, ...] = ()
    """Further statuses under which the same kind of answer comes."""
    body: Any = None
    body_required: bool = True
    body_kinds: tuple[str, ...] = ()
    """Media types of the body beside JSON."""
    parameters: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    request_headers: Mapping[str, Any] = {}
    """Header fields that it reads, and their types."""
    answer_headers: tuple[str, ...] = ()
    """Header fields of its own kind of answer."""
    stream: bool = False
    """Whether the handler reads the request itself, as it arrives; then the call's body is the request."""
    shown_once: bool = False
    """Whether a request with an Idempotency-Key is refused: to repeat it makes another one, and its answer is
    shown once."""
    waits: bool = False
    """Whether it waits for something to happen: then the database's patience is the handler's own."""
    max_body: int | None = None
    """How large a body may be, if not as any other."""
    keeps_nul: bool = False
    """Whether text may have NUL characters, and the handler stores them in a way of its own."""
    tag: str = ""

    @property
    def changes(self) -> bool:
        """Whether it changes something that users or operators own, and is noted in the audit log."""
        return self.method != "GET" and self.scope in (Scope.WRITE, Scope.ADMIN) and not self.keyless
