"""Which addresses are public, how URLs are read, and that no spelling of an inner address gets through."""

import itertools
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.addresses import AddressPolicy, is_public, parse_target_url, unmapped
from tocsin.domain.errors import Refused

CLOSED = AddressPolicy()

INNER_V4 = (
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
)
INNER_V6 = (
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2620:4f:8000::1",
    "2d00::1",
    "2e00::1",
    "3ffe::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
)
PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2400:cb00::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "2c0f:f248::1",
)
SPECIAL_REGISTRY = (
    *(
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
    ),
    *(
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
    ),
    *(
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::1/128",
        "::/128",
    ),
    *(
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
    ),
    *("2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "ff00::/8"),
)


def octets(address: str) -> list[int]:
    return list(IPv4Address(address).packed)


def spellings(address: str) -> list[str]:
    """Every way of writing an IPv4 address that some resolver, browser or URL parser is known to take."""
    a, b, c, d = octets(address)
    number = int(IPv4Address(address))
    high, low = f"{a:02x}{b:02x}", f"{c:02x}{d:02x}"
    return [
        address,
        f"{address}.",
        str(number),
        f"{number}.",
        f"0x{number:08x}",
        f"0X{number:08X}",
        f"0{number:o}",
        f"{a}.{(b << 16) + (c << 8) + d}",
        f"{a}.{b}.{(c << 8) + d}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"000{a:o}.{b}.{c}.{d}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0x{a:x}.{b}.{c}.{d}",
        f"0x{a:x}.{(b << 16) + (c << 8) + d}",
        f"{a}.{b}.{c}.0x{d:x}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        f"{a + 256}.{b}.{c}.{d}",
        address.translate({ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)}),
        address.translate({ord(str(digit)): "⓪①②③④⑤⑥⑦⑧⑨"[digit] for digit in range(10)}),
        address.translate({ord(str(digit)): chr(0x1D7D8 + digit) for digit in range(10)}),
        address.replace(".", "。"),
        address.replace(".", "．"),
        address.replace(".", "｡"),
        address.replace(".", "%2e"),
        "".join(f"%{ord(character):02x}" for character in address),
        f"{address}%00",
        f"{address}\x00.example.com",
        f"{address} ",
        f"{address}\t",
        f"{address}\r\nX: y",
        f"user@{address}",
        f"example.com:80@{address}",
        f"example.com@{address}",
        f"{address}@example.com",
        f"example.com\\@{address}",
        f"{address}\\.example.com",
        f"{address}#@example.com",
        f"example.com#@{address}",
        f"[{address}]",
        f"[::ffff:{address}]",
        f"[::ffff:{high}:{low}]",
        f"[0:0:0:0:0:ffff:{high}:{low}]",
        f"[0000:0000:0000:0000:0000:FFFF:{address}]",
        f"[::{address}]",
        f"[::ffff:0:{address}]",
        f"[64:ff9b::{address}]",
        f"[64:ff9b:1::{high}:{low}]",
        f"[2002:{high}:{low}::1]",
        f"[2001::{0xFFFF ^ int(high, 16):x}:{0xFFFF ^ int(low, 16):x}]",
        f"[::ffff:{address}%25lo]",
        f"[::ffff:{address}%lo]",
        f"[v1.{address}]",
    ]


def every_payload() -> list[str]:
    """Address forms × hosts, and the most telling of them × ports × schemes."""
    hosts = [spelling for address in INNER_V4 for spelling in spellings(address)]
    hosts += [f"[{address}]" for address in INNER_V6]
    hosts += [f"[{IPv6Address(address).exploded.upper()}]" for address in INNER_V6]
    hosts += [
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[::1",
        "::1]",
        "::1",
        "[[::1]]",
        "[]",
        "[example.com]",
        "0",
        "0x0",
    ]
    telling = ("127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "2130706433", "0x7f.1", "127.1")
    ported = [
        f"{host}:{port}"
        for host, port in itertools.product(telling, (22, 80, 443, 5432, 6379, 8080, 9200, 65535))
    ]
    payloads = [f"http://{host}/latest/meta-data" for host in hosts + ported]
    payloads += [f"https://{host}/" for host in telling]
    payloads += [
        f"{scheme}://127.0.0.1/"
        for scheme in ("file", "ftp", "gopher", "dict", "ldap", "ws", "unix", "data", "jar:http")
    ]
    payloads += [
        "//127.0.0.1/",
        "http:127.0.0.1",
        "http:/127.0.0.1",
        "http:///127.0.0.1",
        "127.0.0.1",
        "",
        "http://",
    ]
    payloads += [
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:80:80/",
        "http://127.0.0.1:８０/",
    ]
    payloads += [
        "http://1.1.1.1:22/",
        "http://8.8.8.8:6379/",
        "http://8.8.8.8:00022/",
        "https://1.1.1.1:5432/",
    ]
    payloads += [
        " http://127.0.0.1/",
        "\nhttp://127.0.0.1/",
        "http://127.0.0.1\n.example.com/",
        "ht\ttp://127.0.0.1/",
    ]
    return list(dict.fromkeys(payloads))


PAYLOADS = every_payload()


def test_there_are_enough_payloads() -> None:
    """The list below is at least as long as was promised."""
    assert len(PAYLOADS) >= 200


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_spelling_of_an_inner_address_gets_through(payload: str) -> None:
    """A URL that names an inner address in any spelling is refused before anything is resolved or sent."""
    with pytest.raises(Refused) as refused:
        CLOSED.check_literal(parse_target_url(payload))
    assert refused.value.field == "target.url"


@pytest.mark.parametrize("address", INNER_V4 + INNER_V6)
def test_inner_addresses_are_not_public(address: str) -> None:
    """Every special range is refused, also where Python's own `is_global` says yes."""
    assert not is_public(ip_address(address))
    assert not CLOSED.permits(ip_address(address))


@pytest.mark.parametrize("address", INNER_V4)
def test_mapped_addresses_are_judged_as_what_they_carry(address: str) -> None:
    """Wrapping an inner IPv4 address into ::ffff:0:0/96 changes nothing."""
    assert not is_public(IPv6Address(f"::ffff:{address}"))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public(address: str) -> None:
    """Addresses next to the special ranges, and well-known public ones, may be called."""
    assert is_public(ip_address(address))
    assert CLOSED.permits(ip_address(address))


def test_mapped_public_addresses_are_public() -> None:
    """Unmapping also lets through what may be called."""
    assert is_public(IPv6Address("::ffff:8.8.8.8"))


@pytest.mark.parametrize("block", SPECIAL_REGISTRY)
def test_special_blocks_are_refused_to_their_edges(block: str) -> None:
    """The first and the last address of every block in IANA's special-purpose registries are refused."""
    network = ip_network(block)
    assert not is_public(network[0])
    assert not is_public(network[-1])


@given(st.ip_addresses())
def test_public_never_contains_what_python_knows_to_be_private(address: IPv4Address | IPv6Address) -> None:
    """Our table is at least as strict as the standard library's, mapped addresses read as what they carry."""
    address = unmapped(address)
    if address.is_private or address.is_multicast or address.is_reserved or address.is_link_local:
        assert not is_public(address)


@given(st.ip_addresses(v=6))
def test_nothing_outside_global_unicast_is_public(address: IPv6Address) -> None:
    """Outside 2000::/3 only a mapped public IPv4 address passes."""
    if is_public(address):
        assert address in IPv6Network("2000::/3") or address.ipv4_mapped is not None


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.COM", "http://example.com/"),
        ("https://example.com:443/a?b=c", "https://example.com/a?b=c"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com.", "http://example.com/"),
        ("http://example.com?x=1", "http://example.com/?x=1"),
        ("http://example.com/a/../b//c?d=e&f=%20", "http://example.com/a/../b//c?d=e&f=%20"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
        ("http://ｅｘａｍｐｌｅ。com/", "http://example.com/"),
        ("http://my_service:8080/", "http://my_service:8080/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://８.８.８.８/", "http://8.8.8.8/"),
        ("http://[2606:4700:4700:0:0:0:0:1111]:8443/", "http://[2606:4700:4700::1111]:8443/"),
        ("http://[::ffff:8.8.8.8]/", "http://8.8.8.8/"),
        ("http://127.0.0.1.nip.io/", "http://127.0.0.1.nip.io/"),
        ("http://1.example/", "http://1.example/"),
    ],
)
def test_urls_have_one_normal_form(text: str, normal: str) -> None:
    """Spellings of one URL come out the same, and the normal form reads back as itself."""
    url = parse_target_url(text)
    assert str(url) == normal
    assert parse_target_url(normal) == url


@pytest.mark.parametrize(
    "text",
    [
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://example.com/\x7f",
        "http://example.com/\\x",
        "http://example.com/ü",
        "http://example.com/#fragment",
        "http://user:password@example.com/",
        "http://@example.com/",
        "http://-example.com/",
        "http://example-.com/",
        "http://example..com/",
        "http://.example.com/",
        "http://example.com../",
        "http://./",
        "http://exam%70le.com/",
        "http://example.com:/",
        "http://example.com:-1/",
        "http://example.com:+80/",
        "http://example.com:8_0/",
        "http://example.com:0/",
        "http://example.com:70000/",
        "http://example.com:000080/",
        "http://℀.com/",
        "http://a／b.com/",
        f"http://{'a' * 64}.com/",
        f"http://{'a.' * 127}com/",
        f"http://example.com/{'a' * 2048}",
    ],
)
def test_malformed_urls_are_refused(text: str) -> None:
    """What two URL readers might take differently is refused, naming the field."""
    with pytest.raises(Refused) as refused:
        parse_target_url(text)
    assert refused.value.field == "target.url"


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No input, however odd, ends in another error; and what is read is safe to put on the wire."""
    for candidate in (text, f"http://{text}/", f"http://example.com/{text}"):
        try:
            url = parse_target_url(candidate)
        except Refused:
            continue
        line = f"{url.authority}{url.path}"
        assert line.isascii()
        assert line.isprintable()
        assert " " not in line
        assert parse_target_url(str(url)) == url


@pytest.mark.parametrize("address", INNER_V4 + INNER_V6)
@pytest.mark.parametrize("text", ["http://example.com/", "https://localhost/", "http://127.0.0.1.nip.io/"])
def test_names_that_lead_inside_are_refused(text: str, address: str) -> None:
    """A harmless name is refused once it resolves to an inner address, and the reason does not tell which."""
    reason = CLOSED.refusal(parse_target_url(text), ip_address(address))
    assert reason is not None
    assert address not in reason


def test_loopback_is_opened_alone_and_on_every_port() -> None:
    """Allowing loopback opens 127.0.0.0/8 and ::1, mapped or not, and nothing beside them."""
    policy = AddressPolicy(allow_loopback=True)
    for text in (
        "http://127.0.0.1:9/",
        "http://127.9.9.9/",
        "http://[::1]:8080/",
        "http://[::ffff:127.0.0.1]:8080/",
    ):
        policy.check_literal(parse_target_url(text))
    for text in (
        "http://0.0.0.0/",
        "http://[::]/",
        "http://169.254.169.254/",
        "http://10.0.0.1/",
        "http://[fe80::1]/",
    ):
        with pytest.raises(Refused):
            policy.check_literal(parse_target_url(text))


def test_networks_are_opened_by_the_operator() -> None:
    """An allowed network is open on every port; its neighbours stay closed."""
    policy = AddressPolicy(allowed_networks=(IPv4Network("10.1.0.0/16"), IPv6Network("fd00:1::/32")))
    for text in ("http://10.1.2.3:8080/", "http://[fd00:1::5]:81/", "http://[::ffff:10.1.2.3]/"):
        policy.check_literal(parse_target_url(text))
    for text in ("http://10.2.0.1/", "http://[fd00:2::5]/", "http://127.0.0.1/"):
        with pytest.raises(Refused):
            policy.check_literal(parse_target_url(text))


def test_hosts_are_opened_by_the_operator() -> None:
    """An allowed host may lead anywhere, on any port; other names that lead there may not."""
    policy = AddressPolicy(allowed_hosts=frozenset({"billing.internal"}))
    inner = IPv4Address("10.0.0.5")
    assert policy.refusal(parse_target_url("http://Billing.Internal.:8080/"), inner) is None
    assert policy.refusal(parse_target_url("http://evil.example/"), inner) is not None
    assert policy.refusal(parse_target_url("http://x.billing.internal/"), inner) is not None


def test_ports_bound_public_targets() -> None:
    """Public addresses are called on the listed ports only."""
    policy = AddressPolicy(allowed_ports=frozenset({443, 8443}))
    address = IPv4Address("8.8.8.8")
    assert policy.refusal(parse_target_url("https://example.com/"), address) is None
    assert policy.refusal(parse_target_url("https://example.com:8443/"), address) is None
    assert policy.refusal(parse_target_url("http://example.com/"), address) is not None
    assert policy.refusal(parse_target_url("http://example.com:22/"), address) is not None


def test_denied_networks_win() -> None:
    """What the operator denies stays closed, whatever else is allowed."""
    policy = AddressPolicy(
        allow_loopback=True,
        allowed_hosts=frozenset({"example.com"}),
        denied_networks=(IPv4Network("8.8.8.0/24"), IPv4Network("127.0.0.0/8")),
    )
    url = parse_target_url("http://example.com/")
    assert policy.refusal(url, IPv4Address("8.8.8.8")) is not None
    assert policy.refusal(url, IPv4Address("127.0.0.1")) is not None
    assert not policy.permits(IPv4Address("8.8.8.8"))
    assert policy.permits(IPv4Address("9.9.9.9"))
