"""The supervisor's half of encoding: it sends the texts of its child to the encoder, as the child has no network.

The child asks for some texts at a time, which lie in the scratch folder, and finds their vectors there. It may ask for
any text: to the encoder of the settings, and nowhere else, is where texts of this deployment go anyway.

Nothing here imports NumPy, as in `worker.supervise`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson

from service.encoders.configuration import EncoderConfig
from service.encoders.errors import EncoderAway
from worker.protocol import MOST_TEXTS_ASKED, TEXTS_FILE, VECTORS_FILE

PATIENCE_SECONDS = 120.0
"""For so long an encoder that does not answer is asked again: a job has time, and encoders are restarted."""
MOST_TEXTS_BYTES = 64 << 20
LOOK_SECONDS = 0.1
Result = TypeVar("Result")


class EncoderAnswers:
    """Answers the questions of one child that concern the encoder.

    Parameters
    ----------
    config : EncoderConfig or None
        The deployment's; None if it has none.
    folder : Path
        Where supervisor and child leave files for each other.
    stopped : threading.Event
        Set when the child waits no more.
    """

    def __init__(self, config: EncoderConfig | None, folder: Path, stopped: threading.Event) -> None:
        self._config = config
        self._folder = folder
        self._stopped = stopped
        self.was_asked = False

    def answer(self) -> dict[str, Any] | None:
        """Encode the texts that the child has left.

        Returns
        -------
        dict or None
            ``dimensions`` of the vectors, which lie in the folder as float32; or, under ``away``, why there are none.
            None if the child waits no more.
        """
        self.was_asked = True
        texts = self._texts()
        try:
            vectors = asyncio.run(self._until_stopped(self._encode(texts)))
        except EncoderAway as error:
            return {"away": error.detail}
        except asyncio.CancelledError:
            return None
        (self._folder / VECTORS_FILE).write_bytes(b"".join(vectors))
        return {"dimensions": len(vectors[0]) // 4 if vectors else 0}

    def _texts(self) -> list[str]:
        path = self._folder / TEXTS_FILE
        if path.stat().st_size > MOST_TEXTS_BYTES:
            raise ValueError("too many texts at once")
        texts = orjson.loads(path.read_bytes())
        if not isinstance(texts, list) or len(texts) > MOST_TEXTS_ASKED:
            raise ValueError("too many texts at once")
        if not all(isinstance(text, str) and text for text in texts):
            raise ValueError("what is encoded must be text")
        return texts

    async def _encode(self, texts: list[str]) -> list[bytes]:
        # Loaded where it is used: most deployments have no encoder.
        from service.encoders.client import HttpEncoder

        if self._config is None:
            raise EncoderAway
        async with HttpEncoder(self._config) as encoder:
            return await encoder.encode(texts, PATIENCE_SECONDS)

    async def _until_stopped(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.ensure_future(work)
        while not task.done():
            if self._stopped.is_set():
                task.cancel()
            await asyncio.wait([task], timeout=LOOK_SECONDS)
        return task.result()
