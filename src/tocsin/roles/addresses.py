"""Which addresses the operator's settings admit: of targets that are called, and of browsers that come."""

from ipaddress import ip_network

from tocsin.api.entrance import Doors, is_loopback
from tocsin.domain.addresses import AddressPolicy
from tocsin.domain.errors import Refused
from tocsin.settings import Settings


def address_policy(settings: Settings) -> AddressPolicy:
    """Which addresses targets may have."""
    try:
        networks = tuple(ip_network(text) for text in settings.allow_networks)
    except ValueError as error:
        raise Refused(str(error), field="TOCSIN_ALLOW_NETWORKS") from None
    if not all(text.isdigit() and 0 < int(text) < 65536 for text in settings.allow_ports):
        raise Refused("ports are numbers from 1 to 65535, separated by commas", field="TOCSIN_ALLOW_PORTS")
    ports = frozenset(map(int, settings.allow_ports))
    return AddressPolicy(
        allow_loopback=settings.allow_loopback, allowed_networks=networks, allowed_ports=ports
    )


def doors(settings: Settings) -> Doors:
    """Under which names browsers may come."""
    return Doors(loopback_only=is_loopback(settings.host), public_url=settings.public_url)
