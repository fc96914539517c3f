"""What can go wrong with webhooks."""

from service.errors import NotFound, Problem


class WebhookNotFound(NotFound, type="webhook-not-found", title="No such webhook", detail="no webhook has this id"):
    """No webhook has this id."""


class TooManyWebhooks(Problem, type="too-many-webhooks", title="Too many webhooks", status=409):
    """The project has as many webhooks as it may have."""


class AddressRefusedError(Exception):
    """Raised when a message must not be sent to an address: it is not public, not HTTPS, or not to be found.

    The text says why and may be shown to the owner of the webhook.
    """
