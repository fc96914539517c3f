"""How an installation gets its first key, and what keeps one without keys to this machine."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from service.access.keys import ApiKey
from service.settings import ConfigurationError, Settings, secret_of

HOW = "make one with `prefsvm keys new` and set PREFSVM_BOOTSTRAP_KEY, or PREFSVM_BOOTSTRAP_KEY_FILE, to it"


def read_bootstrap_key(settings: Settings) -> ApiKey | None:
    """Return the key of the settings, or None if they name none.

    Raises
    ------
    ConfigurationError
        If what they name is not a whole key: a password of somebody's own choice can be guessed.
    """
    return read_key("PREFSVM_BOOTSTRAP_KEY", settings.bootstrap_key, settings.bootstrap_key_file)


def read_key(name: str, given: SecretStr | None, file: Path | None) -> ApiKey | None:
    """Return the key of a setting, or of the file that the setting of that name with ``_FILE`` names; None without.

    Raises
    ------
    ConfigurationError
        As `read_bootstrap_key`.
    """
    if (secret := secret_of(name, given, file)) is None:
        return None
    where, text = secret
    key = ApiKey.parse(text)
    if key is None:
        how = f"make one with `prefsvm keys new` and set {name}, or {name}_FILE, to it"
        raise ConfigurationError(f"{where} does not hold an API key; {how}")
    return key


def check_reachable(settings: Settings, *, database_is_new: bool = False) -> None:
    """See to it that whoever can reach the API needs a key, and that somebody has one.

    Parameters
    ----------
    settings : Settings
    database_is_new : bool, default=False
        Whether it is known to hold no keys, so that it need not be asked.

    Raises
    ------
    ConfigurationError
        If the API would listen beyond this machine without asking for keys, or ask for keys while there is none; or if
        the bootstrap key is none.
    """
    bootstrap_key = read_bootstrap_key(settings)
    if not settings.keys_are_required:
        if not settings.on_loopback:
            raise ConfigurationError(
                f"PREFSVM_KEYS_REQUIRED is off, but PREFSVM_HOST={settings.host} can be reached from other machines; "
                "leave it on, or listen on 127.0.0.1"
            )
        return
    if bootstrap_key is not None or not (database_is_new or _has_no_admin(settings)):
        return
    where = "every call needs an API key" + ("" if settings.on_loopback else f" on PREFSVM_HOST={settings.host}")
    raise ConfigurationError(f"{where}, but there is no admin key; {HOW}")


def _has_no_admin(settings: Settings) -> bool:
    """Tell whether the database surely holds no live key with the scope admin."""
    database_url = settings.system_database_url or settings.database_url
    if database_url is None:
        return False
    # Only here: the supervisor of the local stack asks this of no database, and all others start after its imports.
    from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError

    from service.access.repository import KeyDirectory
    from service.db.session import Database

    database = Database(database_url, pool_size=1, application_name="prefsvm-api")
    try:
        with database.transaction() as session:
            return not KeyDirectory(session).any_admin()
    except (OperationalError, InterfaceError, ProgrammingError):
        # Not there yet, or without tables yet, which must not keep the API down: nobody gets in without a key anyway.
        return False
    finally:
        database.close()
