"""Which network addresses media may be fetched from."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""Host and port to addresses; raises OSError."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, in the resolver's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def is_reachable(address: str, networks: Sequence[Network]) -> bool:
    """Whether an address is public, or in one of the networks that the job opens.

    Private, loopback, link-local (and so metadata), multicast and reserved addresses are not
    public, nor are IPv6 addresses that stand for such an IPv4 address.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if any(parsed in network for network in networks):
        return True
    return all(one.is_global and not one.is_multicast for one in (parsed, *_embedded(parsed)))


def _embedded(address: Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses that an IPv6 address carries."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
