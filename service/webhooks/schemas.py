"""What ``/webhooks`` takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from service.schemas import Answer, Body
from service.webhooks.addresses import MAX_URL_CHARACTERS

EXAMPLE_WEBHOOK: JsonDict = {
    "id": "wh_0192f0c1d5a67b3e8f0a1b2c3d4e5f63",
    "url": "https://example.com/prefsvm",
    "created_at": "2026-11-01T12:00:00Z",
}
EXAMPLE_DELIVERY: JsonDict = {
    "id": "msg_0192f0c1d5a67b3e8f0a1b2c3d4e5f64",
    "job_id": "job_0192f0c1d5a67b3e8f0a1b2c3d4e5f61",
    "job_status": "succeeded",
    "status": "delivered",
    "attempts": 1,
    "next_attempt_at": None,
    "last_error": None,
    "created_at": "2026-11-01T12:00:03Z",
    "delivered_at": "2026-11-01T12:00:04Z",
}


class CreateWebhook(Body):
    """Who shall be told when jobs end."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"url": "https://example.com/prefsvm"}]})

    url: str = Field(
        min_length=1,
        max_length=MAX_URL_CHARACTERS,
        description="`https://`, port 443, a host with public addresses only. Redirects are not followed.",
    )


class Webhook(Answer):
    """An address that is told of each job of the project that ends."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_WEBHOOK]})

    id: str
    url: str
    created_at: datetime


class NewWebhook(Webhook):
    """A webhook that was made just now."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**EXAMPLE_WEBHOOK, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}]}
    )

    secret: str = Field(description="Checks the signatures (Standard Webhooks). No other call shows it.")


class WebhookDelivery(Answer):
    """A message to a webhook."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_DELIVERY]})

    id: str = Field(description="Sent as `webhook-id`; a message that comes twice has the same.")
    job_id: str
    job_status: str
    status: Literal["pending", "delivered", "dead"] = Field(
        description="`pending`: to be sent (again) at `next_attempt_at`; `dead`: given up."
    )
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None
