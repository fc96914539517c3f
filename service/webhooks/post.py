"""One signed POST to a webhook: to an address that was looked at, without redirects, in bounded time and memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import ssl
import time
from collections.abc import Callable, Mapping

import h11
import orjson

from service.webhooks.addresses import Destination, resolve
from service.webhooks.outbox import Message

SECONDS = 5.0
"""From asking for the address to the head of the answer."""
MOST_ANSWER_BYTES = 64 << 10
"""Of the head of the answer. Its body is not read at all."""


class PostError(Exception):
    """Raised when no answer came. The text may be shown to the owner of the webhook."""


def body_of(message: Message) -> bytes:
    """Return what is sent: the kind of event, the job and its status, and nothing that was learned or uploaded."""
    data = {"id": message.job_id, "status": message.job_status}
    return orjson.dumps({"type": f"job.{message.job_status}", "data": data})


def signed_headers(message: Message, body: bytes, now: float) -> dict[str, str]:
    """Return the headers of the Standard Webhooks specification."""
    timestamp = str(int(now))
    signed = f"{message.id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(message.secret, signed, hashlib.sha256)).decode()
    return {"webhook-id": message.id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


def post(
    destination: Destination, body: bytes, headers: Mapping[str, str], tls: ssl.SSLContext, *, allow_private: bool
) -> int:
    """Send a body and return the status of the answer.

    Parameters
    ----------
    destination : Destination
    body : bytes
    headers : mapping
    tls : ssl.SSLContext
    allow_private : bool
        See `service.webhooks.addresses`.

    Raises
    ------
    AddressRefusedError
    PostError
    """
    give_up = time.monotonic() + SECONDS

    def left() -> float:
        seconds = give_up - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    try:
        # The certificate must be for the name all the same.
        address = resolve(destination, left(), allow_private=allow_private)
        with socket.create_connection((address, destination.port), timeout=left()) as plain:
            plain.settimeout(left())
            if not destination.secure:
                return _exchange(plain, destination, body, headers, left)
            with tls.wrap_socket(plain, server_hostname=destination.host) as secured:
                return _exchange(secured, destination, body, headers, left)
    except TimeoutError:
        raise PostError(f"no answer within {SECONDS:g} s") from None
    except ssl.SSLError as error:
        raise PostError(f"TLS: {error.reason or type(error).__name__}") from None
    except OSError as error:
        raise PostError(f"the connection failed ({type(error).__name__})") from None
    except h11.RemoteProtocolError:
        raise PostError("the answer is no HTTP, or its head is too long") from None


def _exchange(
    line: socket.socket, destination: Destination, body: bytes, headers: Mapping[str, str], left: Callable[[], float]
) -> int:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_ANSWER_BYTES)
    request = h11.Request(
        method="POST",
        target=destination.target,
        headers=[
            ("Host", destination.authority),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            ("User-Agent", "prefsvm"),
            *headers.items(),
        ],
    )
    sent = [connection.send(event) for event in (request, h11.Data(data=body), h11.EndOfMessage())]
    line.sendall(b"".join(part for part in sent if part))
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            return event.status_code
        if event is h11.NEED_DATA:
            line.settimeout(left())
            connection.receive_data(line.recv(1 << 14))
        elif not isinstance(event, h11.InformationalResponse):
            raise PostError("the connection was closed without an answer")
