"""Vectors of the texts of rows that are to be decided on, of the very encoder that a model was trained with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from service.encoders.configuration import EncoderConfig
from service.encoders.errors import EncoderAway, EncoderChanged
from service.leaving import Gone, unless_gone
from service.single_flight import SingleFlight
from solver.features import EncoderIdentity, KnownVectors
from solver.features.vectors import VectorArray

PATIENCE_SECONDS = 2.0
"""For so long a request that failed is tried again while somebody waits for decisions."""
DOUBTED_SECONDS = 5.0
"""An encoder that made other vectors than a model's is asked again after so long: it may have been set right."""

if TYPE_CHECKING:
    from service.encoders.client import HttpEncoder

Texts = tuple[str, ...]


class TextEncoder:
    """The encoder of this deployment, for use on one event loop.

    Parameters
    ----------
    config : EncoderConfig or None
        None: there is none.
    probe_seconds : float
        How old an answer to the probes may be.
    """

    def __init__(self, config: EncoderConfig | None, probe_seconds: float) -> None:
        self._config = config
        self._opened: HttpEncoder | None = None
        self._probe_seconds = probe_seconds
        self._answers: dict[Texts, tuple[float, VectorArray]] = {}
        """By probes, when they were asked for and what came."""
        self._asking: SingleFlight[Texts, VectorArray] = SingleFlight()

    async def vectors(self, identity: EncoderIdentity, texts: Sequence[str], gone: Gone | None = None) -> KnownVectors:
        """Return the vectors of texts.

        Parameters
        ----------
        identity : EncoderIdentity
            Of the model that decides.
        texts : sequence of str
            Different ones.
        gone : callable, optional
            When it returns, the encoder is left alone.

        Raises
        ------
        EncoderAway
        EncoderChanged
            If it is another encoder than the one that the model was trained with.
        """
        work = self._encode(texts) if self._is_known(identity) else self._encode_and_check(texts, identity)
        made = await (work if gone is None else unless_gone(work, gone))
        if len(texts) and made.shape[1] != identity.dimensions:
            self._answers.clear()
            raise EncoderChanged(
                f"the model was trained with vectors of {identity.dimensions} numbers, and the encoder now makes some "
                f"of {made.shape[1]}"
            )
        return KnownVectors(texts, made)

    def _is_known(self, identity: EncoderIdentity) -> bool:
        """Whether an answer to the probes that is new enough shows that it is the encoder of a model."""
        asked_at, probes = self._answers.get(identity.texts, (-np.inf, None))
        is_new = time.monotonic() - asked_at <= self._probe_seconds
        return is_new and probes is not None and identity.change_to(self._name, probes) is None

    async def _encode_and_check(self, texts: Sequence[str], identity: EncoderIdentity) -> VectorArray:
        """Encode texts, and check the encoder beside that; when one fails, end the other."""
        encoding, checking = asyncio.ensure_future(self._encode(texts)), asyncio.ensure_future(self.check(identity))
        try:
            await asyncio.gather(encoding, checking)
            return encoding.result()
        finally:
            for task in (encoding, checking):
                task.cancel()
            await asyncio.gather(encoding, checking, return_exceptions=True)

    async def check(self, identity: EncoderIdentity) -> None:
        """Raise `EncoderChanged` if the encoder is another one than a model's, by its probes; `EncoderAway`."""
        asked_at, probes = self._answers.get(identity.texts, (-np.inf, None))
        if probes is None or time.monotonic() - asked_at > self._probe_seconds:
            probes = await self._ask(identity.texts)
        change = identity.change_to(self._name, probes)
        if change is not None and time.monotonic() - asked_at > DOUBTED_SECONDS:
            change = identity.change_to(self._name, await self._ask(identity.texts))
        if change is not None:
            raise EncoderChanged(f"{change}: train it again, or bring that encoder back")

    async def close(self) -> None:
        """Close the connections to the encoder."""
        if self._opened is not None:
            await self._opened.close()

    @property
    def _name(self) -> str:
        return "" if self._config is None else self._config.model

    async def _ask(self, texts: Texts) -> VectorArray:
        return await self._asking.do(texts, lambda: self._probe(texts))

    async def _probe(self, texts: Texts) -> VectorArray:
        now = time.monotonic()
        probes = await self._encode(texts)
        self._answers[texts] = now, probes
        return probes

    async def _encode(self, texts: Sequence[str]) -> VectorArray:
        if self._config is None:
            raise EncoderAway
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        if self._opened is None:
            # Loaded where it is used: nothing else that the API does speaks to others.
            from service.encoders.client import HttpEncoder

            self._opened = HttpEncoder(self._config)
        try:
            vectors = await self._opened.encode(texts, PATIENCE_SECONDS)
        except EncoderAway:
            self._answers.clear()  # what comes back need not be what was there
            raise
        return np.frombuffer(b"".join(vectors), dtype="<f4").astype(np.float32, copy=False).reshape(len(texts), -1)
