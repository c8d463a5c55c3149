"""Which hosts a database URL names, and in which order they are tried.

The driver would try them one after the other and spend all its time on the first one that does not answer. So
each host becomes a URL of its own here, and `reaching` tries them: the one that was good last time first, the
others in the order of the URL. Nothing in this module opens a socket.

Every mistake in the URL is the operator's to mend and waiting does not help: it is `Refused`, with
`field=database_url`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from tocsin.domain.errors import Refused

_URL: Final = re.compile(r"(postgres(?:ql)?)://(?:([^@/?#]*)@)?([^/?#]*)(/[^?#]*)?(?:\?([^#]*))?")
_HOST: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[^:]*))?")
_WRITES: Final = ("any", "primary", "read-write")
_FILES: Final = ("sslcert", "sslkey", "sslrootcert", "sslcrl", "passfile")


class Host(NamedTuple):
    """One server that may be the primary."""

    name: str
    """For logs: no user, no password."""
    url: str
    """The database on this host alone."""
    tcp: bool


def hosts_of(url: str) -> tuple[Host, ...]:
    """The hosts of a URL, in its order."""
    found = _URL.fullmatch(url)
    if found is None:
        raise _wrong("a database URL looks like postgresql://user@host/name")
    scheme, login, places, path, query = found.groups(default="")
    words = _words(query)
    _check(words)
    if "service" in words:
        return (Host("service", url, tcp=False),)
    named = _split(places) or _split(words.pop("host", ""))
    ports = _split(words.pop("port", ""))
    words.pop("host", None)
    before = f"{scheme}://{login}@" if login else f"{scheme}://"
    if not named:  # the driver's own default: PGHOST, or a socket of this machine
        rest = words | ({"port": ports[0]} if ports else {})
        return (Host("default", _joined(before, "", path, rest), tcp=False),)
    return tuple(_host(place, port, before, path, words) for place, port in _with_ports(named, ports))


def in_order(count: int, good: int | None) -> list[int]:
    """Which host is tried when: the one that was good last time, then the others as the URL has them."""
    others = [number for number in range(count) if number != good]
    return others if good is None else [good, *others]


def _words(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise _wrong(f"its parameters cannot be read: {error}") from None


def _check(words: dict[str, str]) -> None:
    """Refuse what the driver would only find out later, or take for a server that is away."""
    if (wanted := words.pop("target_session_attrs", "any")) not in _WRITES:
        raise _wrong(
            f"target_session_attrs={wanted} leads to servers that cannot be written to; use read-write"
        )
    for name in _FILES:
        if name in words and not Path(words[name]).is_file():
            raise _wrong(f"{name}: there is no file {words[name]}")


def _split(text: str) -> list[str]:
    return text.split(",") if text else []


def _with_ports(named: Sequence[str], ports: Sequence[str]) -> list[tuple[str, str | None]]:
    """One port for all hosts, or one for each."""
    if len(ports) not in (0, 1, len(named)):
        raise _wrong(f"{len(named)} hosts and {len(ports)} ports")
    if len(ports) < 2:
        return [(place, ports[0] if ports else None) for place in named]
    return list(zip(named, ports, strict=True))


def _host(place: str, port: str | None, before: str, path: str, words: dict[str, str]) -> Host:
    directory = unquote(place)
    if directory.startswith("/"):
        number = _port(port)
        beside = {"host": directory} | ({} if number is None else {"port": number})
        return Host(directory, _joined(before, "", path, words | beside), tcp=False)
    found = _HOST.fullmatch(place)
    if found is None or not found["host"]:
        raise _wrong(f"{place!r} is not a host")
    number = _port(found["port"] or port)
    name = found["host"] if number is None else f"{found['host']}:{number}"
    return Host(name, _joined(before, name, path, words), tcp=True)


def _port(text: str | None) -> str | None:
    if text is None or (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        return text
    raise _wrong(f"{text!r} is not a port")


def _joined(before: str, place: str, path: str, words: dict[str, str]) -> str:
    query = urlencode(words, quote_via=quote, safe="")
    return f"{before}{place}{path}?{query}" if query else f"{before}{place}{path}"


def _wrong(detail: str) -> Refused:
    return Refused(detail, field="database_url")
