"""What can go wrong with an encoder."""

from __future__ import annotations

from service.errors import Problem

AGAIN_SECONDS = 5


class EncoderAway(
    Problem,
    type="encoder-away",
    title="The encoder is away",
    status=503,
    retry_after=AGAIN_SECONDS,
    detail="the model encodes texts, and this service has no encoder configured (PREFSVM_ENCODER_URL)",
):
    """The encoder that the texts have to be sent to does not answer, or not as it should."""


class EncoderChanged(Problem, type="encoder-changed", title="The encoder is another one", status=409):
    """The encoder makes other vectors than it did when the model was trained: its decisions would be others."""
