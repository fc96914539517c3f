"""Which encoder a deployment has, as its settings say."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from service.encoders.names import AUTO_ENCODER, NO_ENCODER
from service.settings import ConfigurationError, Settings, secret_of

PATH = "/embeddings"
MAX_KEY_BYTES = 10_000


@dataclass(frozen=True)
class EncoderConfig:
    """An encoder that speaks as OpenAI's does.

    Attributes
    ----------
    url : str
        Where texts are posted to.
    model : str
    key : str or None
        Sent as a bearer token. Never shown.
    dimensions : int or None
        Asked for and checked, if given.
    prefix : str
        Stands before each text that is sent.
    at_once : int
        Requests of one call that are under way at a time.
    batch : int
        Texts of one request.
    seconds : float
        That one request may take, from the first byte to the last.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    dimensions: int | None = None
    batch: int = 32
    seconds: float = 30.0
    prefix: str = ""
    at_once: int = 2

    @property
    def host(self) -> str:
        """Where it runs: name or address, and the port if one is given."""
        return urlsplit(self.url).netloc


def encoder_config(settings: Settings) -> EncoderConfig | None:
    """Return the encoder of the settings, or None if they name none.

    Raises
    ------
    ConfigurationError
        If they contradict each other, or name what cannot be one.
    """
    if settings.encoder_folder is not None:
        raise ConfigurationError(
            "PREFSVM_ENCODER_FOLDER is for prefsvm serve; elsewhere run python -m service.encoders.local.server with "
            "the folder, and set PREFSVM_ENCODER_URL and PREFSVM_ENCODER_MODEL"
        )
    if settings.encoder_url is None and settings.encoder_model is None:
        return None
    if settings.encoder_url is None or settings.encoder_model is None:
        raise ConfigurationError("PREFSVM_ENCODER_URL and PREFSVM_ENCODER_MODEL belong together: set both or none")
    if settings.encoder_model in (AUTO_ENCODER, *NO_ENCODER):
        raise ConfigurationError(
            f"PREFSVM_ENCODER_MODEL must not be {settings.encoder_model}: trainings mean more by it"
        )
    return EncoderConfig(
        url=_address(settings.encoder_url),
        model=settings.encoder_model,
        key=_key(settings),
        dimensions=settings.encoder_dimensions,
        batch=settings.encoder_batch,
        at_once=settings.encoder_at_once,
        seconds=settings.encoder_seconds,
        prefix=settings.encoder_prefix,
    )


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ConfigurationError("PREFSVM_ENCODER_URL must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigurationError(
            "PREFSVM_ENCODER_URL must hold neither user and password nor a query: its key belongs into "
            "PREFSVM_ENCODER_KEY"
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(PATH) else path + PATH}"


def _key(settings: Settings) -> str | None:
    secret = secret_of("PREFSVM_ENCODER_KEY", settings.encoder_key, settings.encoder_key_file)
    if secret is None:
        return None
    name, key = secret
    if not key or not key.isascii() or not key.isprintable() or len(key) > MAX_KEY_BYTES:
        raise ConfigurationError(f"{name} does not hold a key: expected printable ASCII characters")
    return key
