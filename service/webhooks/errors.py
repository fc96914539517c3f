"""What can go wrong with webhooks."""

from service.errors import NotFound, Problem


class WebhookNotFound(NotFound):
    """No webhook has this id."""

    type = "webhook-not-found"
    title = "No such webhook"


class TooManyWebhooks(Problem):
    """The project has as many webhooks as it may have."""

    type = "too-many-webhooks"
    title = "Too many webhooks"
    status = 409


class AddressRefusedError(Exception):
    """Raised when a message must not be sent to an address: it is not public, not HTTPS, or not to be found.

    The text says why and may be shown to the owner of the webhook.
    """
