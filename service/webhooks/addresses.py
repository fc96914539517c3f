"""Where a webhook may point: to public addresses over HTTPS, and to nothing inside the network of this service.

The name is resolved once, every address that it has is looked at, and the connection goes to an address that was looked
at. To check a name and then let a library resolve it again would let its owner change the answer in between.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from service.webhooks.errors import AddressRefusedError

MAX_URL_CHARACTERS = 2000
HTTPS_PORT = 443
_IN_USE = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that the internet uses. Elsewhere are ways back inside: IPv4 in IPv6 in many forms, NAT64, fec0::/10."""
_SPECIAL = [
    ipaddress.ip_network(network)
    for network in (
        *("192.0.0.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
]
"""From IANA's lists of special-purpose addresses, what `ipaddress` takes for global, in some version or all of them."""
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
MAX_NAME_CHARACTERS = 253

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Destination:
    """The parts of a webhook's URL that a request needs."""

    secure: bool
    host: str
    """ASCII name or literal address, without brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (HTTPS_PORT if self.secure else 80) else f"{host}:{self.port}"


def parse_destination(url: str, *, allow_private: bool) -> Destination:
    """Take a URL apart.

    Parameters
    ----------
    url : str
    allow_private : bool
        Also take ``http://``, any port and private literal addresses: for tests and a service on one's own machine.

    Raises
    ------
    AddressRefusedError
    """
    if len(url) > MAX_URL_CHARACTERS or not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefusedError(
            f"the URL must be of at most {MAX_URL_CHARACTERS} printable characters without blanks"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").rstrip(".").encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        raise AddressRefusedError("this is no URL") from None
    secure = parts.scheme == "https"
    if not secure and not (allow_private and parts.scheme == "http"):
        raise AddressRefusedError("the URL must begin with https://")
    if not host or parts.username is not None or parts.password is not None or parts.fragment:
        raise AddressRefusedError("the URL must name a host, and neither user, password nor fragment")
    port = port if port is not None else HTTPS_PORT if secure else 80
    if port != HTTPS_PORT and not allow_private:
        raise AddressRefusedError("the URL must not name another port than 443")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii():
        raise AddressRefusedError("path and query must be percent-encoded")
    destination = Destination(secure, host, port, target)
    if not _may_be_host(host):
        raise AddressRefusedError("the host of the URL is neither a name of letters, digits and hyphens nor an address")
    try:
        # Takes all spellings of literal addresses (127.1, 0x7f000001, 2130706433) and asks no name server.
        literal = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:
        if host.rpartition(".")[2].isdigit():  # no name ends so
            raise AddressRefusedError("the host of the URL is neither a name nor an address") from None
        return destination
    _check_all([str(found[4][0]) for found in literal], allow_private)
    return destination


def resolve(destination: Destination, seconds: float, *, allow_private: bool) -> str:
    """Return the address to connect to.

    Raises
    ------
    AddressRefusedError
        If the name has no address, or any that is not public.
    TimeoutError
        If no name server has answered after `seconds`.
    """
    answer: Future[list[Any]] = Future()

    def ask() -> None:
        try:
            answer.set_result(socket.getaddrinfo(destination.host, destination.port, type=socket.SOCK_STREAM))
        except Exception as error:
            answer.set_exception(error)

    # Nothing ends a look-up but its own time, which is the system's to say: it is left to itself when it takes longer.
    threading.Thread(target=ask, name="look-up", daemon=True).start()
    try:
        found = answer.result(seconds)
    except TimeoutError:
        raise
    except (OSError, UnicodeError):
        raise AddressRefusedError("the host name has no address") from None
    addresses = [str(each[4][0]) for each in found]
    _check_all(addresses, allow_private)
    return addresses[0]


def _check_all(addresses: list[str], allow_private: bool) -> None:
    if not allow_private and not all(is_public(ipaddress.ip_address(address.split("%")[0])) for address in addresses):
        raise AddressRefusedError("the host has an address that is not public")


def _may_be_host(host: str) -> bool:
    """Tell whether a host is an address, or a name that could have one."""
    if ":" in host:
        try:
            return "%" not in host and ipaddress.IPv6Address(host) is not None  # a zone is of this machine
        except ValueError:
            return False
    labels = host.lower().split(".")
    return len(host) <= MAX_NAME_CHARACTERS and all(map(_may_be_label, labels))


def _may_be_label(label: str) -> bool:
    if _LABEL.fullmatch(label) is None:
        return False
    if not label.startswith("xn--"):
        return True
    try:
        return label.encode().decode("idna").encode("idna").decode() == label
    except UnicodeError:
        return False


def is_public(address: IpAddress) -> bool:
    """Tell whether an address belongs to the public internet: to IPv4, or to the part of IPv6 that is in use."""
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _IN_USE:
        return False
    return not any(address in network for network in _SPECIAL if network.version == address.version)
