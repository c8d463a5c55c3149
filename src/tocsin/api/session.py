"""``/v1/session``: log in to the dashboard, see who is logged in, log out; tickets for links that log in.

The answer to a login is a cookie that scripts cannot read. The key itself is not kept by the page, and the
session counts only while the key does. A login is asked for without a key in the header, so the doors are
checked here.
"""

import tocsin
from tocsin.api.endpoint import ApiCall, Endpoint, Reply
from tocsin.api.entrance import PLAIN_COOKIE, SECURE_COOKIE, is_loopback, session_token
from tocsin.api.wire import session as wire
from tocsin.domain.errors import Refused, Unauthorized
from tocsin.domain.instant import format_instant
from tocsin.domain.keys import LONGEST
from tocsin.store.sessions import TICKET_LIFE

_COOKIE_LIFE = 7 * 86_400  # seconds; whether the session counts is the server's business
_UNSAFE = "this page is not served over https: an attacker who listens on the way can take over the session"


async def create(call: ApiCall) -> Reply:
    """Log in."""
    body: wire.Login = call.body
    context = call.context
    context.entrance.check_browser(call.request)
    if (body.key is None) == (body.ticket is None):
        raise Refused("give a key or a ticket", field="key")
    if body.ticket is not None:
        token = await context.sessions.redeem(body.ticket)
        if token is None:
            raise Unauthorized("the link was used already or is too old; `tocsin dashboard` makes another")
    else:
        asker = await context.authenticator.asker_of_key((body.key or "")[:LONGEST])
        token = await context.sessions.open_session(asker.key_id)
    if token is None:
        raise Unauthorized("the API key is not valid")
    return Reply(wire.LoggedOut(ended=False), cookies=_cookies(call, token))


async def show(call: ApiCall) -> wire.SessionView:
    """Who is logged in."""
    asker, request = call.asker, call.request
    safe = call.context.entrance.doors.secure(request) or is_loopback(request.headers.get("host", ""))
    return wire.SessionView(
        key_id=asker.key_id,
        tenant=asker.tenant,
        scopes=sorted(asker.scopes),
        now=format_instant(call.context.clock.now()),
        version=tocsin.__version__,
        echo=call.context.echo,
        warning=None if safe or not asker.in_browser else _UNSAFE,
    )


async def end(call: ApiCall) -> Reply:
    """Log out."""
    token = session_token(call.headers) if call.asker.in_browser else None
    if token is not None:
        await call.context.sessions.close(token)
        call.context.authenticator.forget()
    return Reply(wire.LoggedOut(ended=token is not None), cookies=_cookies(call, ""))


async def ticket(call: ApiCall) -> wire.Ticket:
    """A ticket for the key that asks."""
    text = await call.context.sessions.issue_ticket(call.asker.key_id)
    if text is None:
        raise Unauthorized("the API key is not valid")
    return wire.Ticket(text, int(TICKET_LIFE.total_seconds()))


def _cookies(call: ApiCall, token: str) -> tuple[str, ...]:
    """The safe cookie where browsers keep it: over https, and mostly on loopback, too, where a plain one goes
    along for those that do not. Elsewhere the plain one alone."""
    age = _COOKIE_LIFE if token else 0
    common = f"={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}"
    safe, plain = f"{SECURE_COOKIE}{common}; Secure", f"{PLAIN_COOKIE}{common}"
    if call.context.entrance.doors.secure(call.request):
        return (safe,)
    return (safe, plain) if is_loopback(call.headers.get("host", "")) else (plain,)


_SESSION = "/v1/session"
ENDPOINTS = (
    Endpoint(
        method="POST", path=_SESSION, handler=create, body=wire.Login, answer=wire.LoggedOut, keyless=True,
        summary="Log in to the dashboard with a key or a ticket; the answer sets a cookie",
    ),
    Endpoint(
        method="GET", path=_SESSION, handler=show, answer=wire.SessionView, summary="Who is logged in",
    ),
    Endpoint(
        method="DELETE", path=_SESSION, handler=end, answer=wire.LoggedOut, summary="Log out of the dashboard",
    ),
    Endpoint(
        method="POST", path=_SESSION + "/tickets", handler=ticket, answer=wire.Ticket, status=201,
        summary="A ticket for a link that logs in once as the key that asks",
    ),
)  # fmt: skip
