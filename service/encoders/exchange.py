"""What is sent to an encoder, and what its answer may hold: OpenAI's `/embeddings`, believing nothing.

Nothing here imports NumPy: the supervisor of a job encodes, too.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

import orjson

from solver.choices import MAX_ENCODED_DIMENSIONS

BYTES_A_NUMBER = 32
"""That a number takes in an answer at most, with what stands between two."""
BYTES_BESIDE = 1 << 16
"""Of an answer, and of each vector, beside numbers: names of fields, and what else an encoder tells."""


class BadAnswerError(ValueError):
    """An encoder did not answer as it should; the text says what was expected, and nothing of texts or vectors."""


def body_of(model: str, texts: Sequence[str], dimensions: int | None) -> bytes:
    """Return what is posted."""
    asked = {"model": model, "input": list(texts), "encoding_format": "float"}
    return orjson.dumps(asked if dimensions is None else asked | {"dimensions": dimensions})


def most_answer_bytes(count: int, dimensions: int | None) -> int:
    """Return how long an answer for so many texts may be."""
    return BYTES_BESIDE + count * (1024 + BYTES_A_NUMBER * (dimensions or MAX_ENCODED_DIMENSIONS))


def vectors_of(answer: bytes, count: int, dimensions: int | None) -> list[bytes]:
    """Return the vectors of an answer in the order of the texts, each as float32, little-endian.

    Parameters
    ----------
    answer : bytes
    count : int
        How many texts were sent.
    dimensions : int or None
        How many numbers each must have, if that is known.

    Raises
    ------
    BadAnswerError
        If it is not one vector a text, all of one length, of finite numbers.
    """
    try:
        value = orjson.loads(answer)
    except ValueError:
        raise BadAnswerError("its answer is no JSON") from None
    items = value.get("data") if isinstance(value, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadAnswerError("its answer has no list of objects `data`")
    if len(items) != count:
        raise BadAnswerError(f"it answered {count} texts with {len(items)} vectors")
    vectors: list[bytes | None] = [None] * count
    length = dimensions
    for item in items:
        index, numbers = item.get("index"), item.get("embedding")
        if type(index) is not int or not 0 <= index < count or vectors[index] is not None:
            raise BadAnswerError("its answer does not name each text once by `index`")
        if not isinstance(numbers, list) or not 1 <= len(numbers) <= MAX_ENCODED_DIMENSIONS:
            raise BadAnswerError(f"`embedding` is no list of 1 to {MAX_ENCODED_DIMENSIONS} numbers")
        length = len(numbers) if length is None else length
        if len(numbers) != length:
            raise BadAnswerError(f"a vector has {len(numbers)} numbers, and {length} were expected")
        vectors[index] = _packed(numbers)
    return [vector for vector in vectors if vector is not None]


def _packed(numbers: list[object]) -> bytes:
    try:
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
    except (struct.error, OverflowError):
        raise BadAnswerError("a vector holds what is no finite number") from None
    if bool in map(type, numbers) or not all(map(math.isfinite, struct.unpack(f"<{len(numbers)}f", packed))):
        raise BadAnswerError("a vector holds what is no finite number")
    return packed
