"""Serves the application with uvicorn until told to stop."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator, Sequence

import structlog
import uvicorn
from uvicorn._types import ASGIApplication

from tocsin.api.connection import Connection
from tocsin.domain.errors import Refused

_log = structlog.get_logger()


def listen(host: str, port: int, *, share_port: bool = False) -> socket.socket:
    """A listening socket, or a clear word about why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=share_port)
    except (OSError, OverflowError) as error:
        raise _no_listener(host, port, error) from None


def _no_listener(host: str, port: int, error: OSError | OverflowError) -> Refused:
    """Names the option to change: the host where the host is at fault, else the port."""
    code = getattr(error, "errno", None) or 0
    if code < 0 or code in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # below 0: the resolver's codes
        field, hint = "host", "give --host an address of this machine, or 0.0.0.0 for all of them"
    elif code == errno.EACCES:
        field, hint = "port", "ports below 1024 need privileges; give another --port"
    else:
        field, hint = "port", "stop what listens there, or give another --port"
    # Python adds the address to the system's words: "… (while attempting to bind on address …)".
    reason = (getattr(error, "strerror", None) or str(error)).partition(" (while ")[0]
    return Refused(f"cannot listen on {host}:{port}: {reason}", field=field, hint=hint)


def _url_of(listener: socket.socket) -> str:
    """Where to point a browser; says which port the kernel chose when 0 was asked for."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Signals belong to the process's role, not to uvicorn."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApplication,
    host: str,
    port: int,
    stop: asyncio.Event,
    trusted_proxies: Sequence[str] = (),
    *,
    share_port: bool = False,
) -> None:
    """Answer requests; after `stop`, finish those under way. A trusted proxy says where a request came
    from."""
    listener = listen(host, port, share_port=share_port)
    config = uvicorn.Config(
        app,
        loop="none",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_graceful_shutdown=10,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    _log.info("api.listening", url=_url_of(listener))
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopping.cancel()
    await serving
