"""Where a request may go: the URL a user wrote, read once and strictly, and the addresses it may lead to.

A user of the service chooses the URL; the service stands inside a network that the user does not. So an
address is called only if the table below leaves it over, or the operator opened it by hand. The table is our
own, made from the IANA registries (IPv4 and IPv6 special-purpose addresses, IPv6 global unicast assignments),
because `ipaddress` calls NAT64, 6to4, v4-compatible, site-local and multicast addresses global in Python
3.11.

Invariants:

* An address is judged after unmapping `::ffff:a.b.c.d`; every other prefix that carries an IPv4 address
  inside (6to4, Teredo, NAT64, v4-compatible, v4-translated) is refused whole.
* A host is normalised once, here. What is left is an address, or a name that no resolver reads as an address:
  the spellings that `inet_aton` takes beside four plain decimal numbers (`127.1`, `0x7f.1`, `2130706433`) are
  refused.
* A name says nothing about where it leads: `AddressPolicy.refusal` must be asked for every resolved address
  at every delivery. `check_literal` only spares the user the wait when the URL itself can never be called.
"""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NoReturn

import idna
import msgspec

from tocsin.domain.errors import Refused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL: Final = 2048
_MAX_NAME: Final = 253
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_REFUSED_IPV4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network; 0.0.0.0 reaches the local host on Linux
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by carriers (CGNAT); holds Alibaba's metadata service
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # Azure's host agent, inside a public range
            "169.254.0.0/16",  # link-local; holds most metadata services
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # IETF protocol assignments; holds Oracle's metadata service
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112 DNS sink
            "192.52.193.0/24",  # automatic multicast tunnelling
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112 DNS sink
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and the broadcast address
        ),
    )
)
# Everything outside is loopback, link-local, unique-local, site-local, multicast, NAT64 (64:ff9b::/96 and
# 64:ff9b:1::/48), v4-compatible, v4-translated, discard-only, SRv6, or not assigned to anyone.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_REFUSED_IPV6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF protocol assignments: Teredo, benchmarking, ORCHID, anycast services
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112 DNS sink
            "2d00::/8",  # reserved
            "2e00::/7",  # reserved
            "3000::/4",  # reserved; holds 3ffe::/16 (6bone) and 3fff::/20 (documentation)
        ),
    )
)

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^#]*)")
_BRACKETED: Final = re.compile(r"\[(?P<address>[0-9A-Fa-f:.]+)\](?::(?P<port>[0-9]+))?")
_NAMED: Final = re.compile(r"(?P<name>[^:\[\]]+)(?::(?P<port>[0-9]+))?")
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_ENDS_IN_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class TargetUrl(msgspec.Struct, frozen=True):
    """A URL in its one normal form. Only `parse_target_url` makes these, so every field is safe to send."""

    scheme: str
    host: str
    """A lower-case ASCII name without a trailing dot, or an address without brackets."""
    port: int
    authority: str
    """The Host header: brackets around IPv6, no port when it is the scheme's own."""
    path: str
    """Path and query as they go on the wire; never empty."""
    address: Address | None
    """Set when the host is an address and nothing needs resolving."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


class AddressPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator opens and closes on top of the table.

    What is opened by hand (loopback, a network, a host) is open on every port. Public addresses are open on
    `allowed_ports`. `denied_networks` wins over everything: it is for inner networks that use public
    addresses.
    """

    allow_loopback: bool = False
    allowed_networks: tuple[Network, ...] = ()
    allowed_hosts: frozenset[str] = frozenset()
    """Names in their normal form, trusted wherever they lead. Only for names whose DNS the operator runs."""
    allowed_ports: frozenset[int] = frozenset(_DEFAULT_PORTS.values())
    denied_networks: tuple[Network, ...] = ()

    def permits(self, address: Address) -> bool:
        """Whether this address may be called at all, host and port apart."""
        address = unmapped(address)
        return not self._denies(address) and (self._opens(address) or is_public(address))

    def refusal(self, url: TargetUrl, address: Address) -> str | None:
        """Why `url` may not be called at `address`, or None. The text names no address: DNS may be inner
        too."""
        address = unmapped(address)
        if self._denies(address):
            return "the target leads to a network that this server does not call"
        if url.host in self.allowed_hosts or self._opens(address):
            return None
        if not is_public(address):
            return "the target does not lead to a public address"
        if url.port not in self.allowed_ports:
            return f"targets on port {url.port} are not allowed on this server"
        return None

    def check_literal(self, url: TargetUrl, field: str = "target.url") -> None:
        """Refuse early a URL whose host is an address that can never be called."""
        if url.address is not None and (reason := self.refusal(url, url.address)):
            raise Refused(reason, field=field)

    def _denies(self, address: Address) -> bool:
        return any(address in network for network in self.denied_networks)

    def _opens(self, address: Address) -> bool:
        if self.allow_loopback and address.is_loopback:
            return True
        return any(address in network for network in self.allowed_networks)


def is_public(ip: Address) -> bool:
    """Whether an address belongs to the open internet, by the tables above."""
    match unmapped(ip):
        case IPv4Address() as v4:
            return not any(v4 in network for network in _REFUSED_IPV4)
        case IPv6Address() as v6:
            return v6 in _GLOBAL_UNICAST and not any(v6 in network for network in _REFUSED_IPV6)


def unmapped(address: Address) -> Address:
    """The IPv4 address that the kernel really calls for `::ffff:a.b.c.d`; any other address as it is."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def parse_target_url(url: str, field: str = "target.url") -> TargetUrl:
    """Read an http or https URL, refusing whatever two parsers might read differently."""
    try:
        return _parse(url)
    except Refused as error:
        raise Refused(error.detail, field=field, hint=error.hint) from None


@lru_cache(maxsize=4096)
def _parse(url: str) -> TargetUrl:
    if len(url) > MAX_URL:
        _refuse(f"a URL is at most {MAX_URL} characters")
    if _UNSAFE.search(url):
        _refuse("a URL has no spaces, control characters or backslashes", hint="percent-encode them")
    parts = _URL.fullmatch(url)
    if parts is None:
        _refuse("a URL has a scheme and a host, and no fragment (#…)", hint="as in https://example.com/hook")
    scheme = parts["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        _refuse("the scheme must be http or https")
    host, address, port = _read_authority(parts["authority"], _DEFAULT_PORTS[scheme])
    authority = f"[{host}]" if ":" in host else host
    if port != _DEFAULT_PORTS[scheme]:
        authority += f":{port}"
    return TargetUrl(scheme, host, port, authority, _read_path(parts["path"]), address)


@lru_cache(maxsize=4096)  # many URLs lead to the same few hosts
def _read_authority(authority: str, default_port: int) -> tuple[str, Address | None, int]:
    if "@" in authority:
        _refuse("a URL carries no user name or password", hint="send credentials in a header")
    if bracketed := _BRACKETED.fullmatch(authority):
        address = _read_ipv6(bracketed["address"])
        return str(address), address, _read_port(bracketed["port"], default_port)
    named = _NAMED.fullmatch(authority)
    if named is None:
        _refuse("the host or port cannot be read; an IPv6 address stands in brackets, without a zone")
    return *_read_host(named["name"]), _read_port(named["port"], default_port)


def _read_ipv6(text: str) -> Address:
    try:
        return unmapped(IPv6Address(text))
    except AddressValueError:
        _refuse("what stands in brackets is not an IPv6 address")


def _read_host(text: str) -> tuple[str, Address | None]:
    name = _read_name(text)
    if not _ENDS_IN_NUMBER.fullmatch(name):
        return name, None
    try:
        address = IPv4Address(name)
    except AddressValueError:
        _refuse("an IPv4 address is four decimal numbers without leading zeros")
    return str(address), address


def _read_name(text: str) -> str:
    name = text.lower() if text.isascii() else _to_ascii(text)
    name = name.removesuffix(".")
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        _refuse("the host is not a valid name")
    return name


def _to_ascii(text: str) -> str:
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except idna.IDNAError:
        _refuse("the host is not a valid internationalised name")


def _read_port(text: str | None, default: int) -> int:
    if text is None:
        return default
    if len(text) > 5 or not 1 <= int(text) <= 65535:
        _refuse("a port lies between 1 and 65535")
    return int(text)


def _read_path(text: str) -> str:
    if not text.isascii():
        _refuse("path and query must be ASCII", hint="percent-encode other characters")
    return text if text.startswith("/") else f"/{text}"


def _refuse(detail: str, *, hint: str | None = None) -> NoReturn:
    raise Refused(detail, hint=hint)
