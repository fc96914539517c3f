"""Where the mail filter listens, and with which key it acts: never where others reach it, unless that is asked for."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from service.access.bootstrap import read_key
from service.access.keys import ApiKey
from service.schemas import is_alias
from service.settings import ConfigurationError, Settings


@dataclass(frozen=True)
class Address:
    """A TCP address, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """Whether only this machine reaches it."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def addresses_of(text: str, *, anywhere: bool) -> list[Address]:
    """Read the setting `mail_listen`.

    Raises
    ------
    ConfigurationError
        If it is none, or names an address that others reach and `anywhere` is false.
    """
    found = [_address(part.strip()) for part in text.split(",") if part.strip()]
    for address in found:
        if not (anywhere or address.is_private):
            raise ConfigurationError(
                f"PREFSVM_MAIL_LISTEN={address} can be reached from other machines, and what is spoken there knows no "
                "password; name a loopback address or a Unix socket, or set PREFSVM_MAIL_LISTEN_ANYWHERE=true"
            )
    return found


def check_mail_settings(settings: Settings) -> tuple[list[Address], ApiKey | None]:
    """Return where to listen, nowhere maybe, and the key to act with.

    Raises
    ------
    ConfigurationError
        If the settings are wrong, or would let nobody act.
    """
    addresses = addresses_of(settings.mail_listen, anywhere=settings.mail_listen_anywhere)
    key = read_key("PREFSVM_MAIL_KEY", settings.mail_key, settings.mail_key_file)
    if addresses and key is None and settings.keys_are_required:
        raise ConfigurationError(
            "the mail filter needs an API key, as every call does: set PREFSVM_MAIL_KEY_FILE to a file with one "
            "(prefsvm keys create mail --scope read)"
        )
    if addresses and not is_alias(settings.mail_model):
        raise ConfigurationError("PREFSVM_MAIL_MODEL should be an alias, such as spam-filter")
    return addresses, key


def _address(text: str) -> Address:
    path = text.removeprefix("unix:")
    if path.startswith("/"):
        return Address(path=Path(path))
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ConfigurationError(
            "PREFSVM_MAIL_LISTEN: expected host:port, such as 127.0.0.1:783, or the path of a Unix socket, not "
            f"{text[:100]!r}"
        )
    return Address(host, int(port))
