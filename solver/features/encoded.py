"""Texts of which an encoder makes vectors → one block of features for each column.

The encoder is somebody else's: here is only what it is asked for, and how to tell whether it is still the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from solver.choices import MAX_ENCODED_DIMENSIONS, SAME_WITHIN
from solver.features.columns import FeatureCounts
from solver.features.errors import FeatureError, StateError
from solver.features.strings import pack_strings, unpack_strings
from solver.features.vectors import VectorArray, VectorColumns
from solver.typing import FloatArray

# what of each text is encoded: most encoders of sentences read no more than 256 to 512 tokens
MAX_ENCODED_CHARACTERS: Final = 2_000
MAX_PROBES: Final = 16
MAX_MODEL_NAME: Final = 200
# Texts whose vectors a model keeps, by which it knows its encoder again: of ours, never of a user's.
PROBES: Final = (
    "The parcel was left with a neighbour on the second floor.",
    "WINNER!! Claim your free prize now, call 0900 555 0199 before midnight",
    "昨日の会議の議事録を確認して、金曜日までに返信してください。",
)


class EncoderNeeded(FeatureError):  # noqa: N818 (as its siblings)
    """Rows with texts are to become features, and nobody has brought the encoder that the model was trained with."""


@dataclass(frozen=True, eq=False)
class EncoderIdentity:
    """Which encoder it is.

    Attributes
    ----------
    model : str
        What the encoder is called where it runs. Vectors count, not names.
    texts : tuple of str
        Of the probes.
    probes : float32 array of shape (probes, dimensions)
        What it made of them.
    """

    model: str
    texts: tuple[str, ...]
    probes: VectorArray

    @property
    def dimensions(self) -> int:
        """How many numbers its vectors have."""
        return int(self.probes.shape[1])

    def change_to(self, model: str, probes: VectorArray) -> str | None:
        """Say in what an encoder differs that was asked for the same probes; None if it is the same one.

        Parameters
        ----------
        model : str
            Its name, for the sentence.
        probes : float32 array of shape (probes, dimensions)
        """
        if probes.shape != self.probes.shape:
            return (
                f"the model was trained with vectors of {self.dimensions} numbers of the encoder {self.model!r}; "
                f"{model!r} makes some of {probes.shape[1]}"
            )
        recorded = self.probes.astype(np.float64)
        lengths = np.maximum(np.linalg.norm(recorded, axis=1), np.finfo(np.float64).tiny)
        off = float((np.linalg.norm(probes - recorded, axis=1) / lengths).max())
        if off <= SAME_WITHIN:
            return None
        return (
            f"the encoder {model!r} makes other vectors now than {self.model!r} did when the model was trained (of the "
            f"same sentence, {off:.0%} away)"
        )


class Encoder(Protocol):
    """Makes vectors of texts: equal ones of equal texts, as far as it can."""

    def identity(self) -> EncoderIdentity | None:
        """Return which encoder it is; None where there is none after all. Asked for by a training only."""
        ...

    def encode(self, texts: Sequence[str]) -> VectorArray:
        """Return the vectors of texts, none of them empty: float32, finite, of shape (texts, dimensions)."""
        ...


class KnownVectors:
    """Vectors of texts that somebody has encoded before: an `Encoder` for the rows that these are of.

    Parameters
    ----------
    texts : sequence of str
    vectors : float32 array of shape (texts, dimensions)
    """

    def __init__(self, texts: Sequence[str], vectors: VectorArray) -> None:
        self._places = {text: place for place, text in enumerate(texts)}
        self._vectors = vectors

    def identity(self) -> EncoderIdentity | None:
        """None: nothing is to be fitted with them."""
        return None

    def encode(self, texts: Sequence[str]) -> VectorArray:
        """Return the vectors of some of the texts; raises `KeyError` for others."""
        return self._vectors[[self._places[text] for text in texts]]


class TextDigests:
    """Stands for an encoder where rows are only to be told apart: of equal texts it makes the same bits, always.

    Parameters
    ----------
    dimensions : int
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions

    def identity(self) -> EncoderIdentity | None:
        """None: nothing is to be fitted with them."""
        return None

    def encode(self, texts: Sequence[str]) -> VectorArray:
        """Return numbers from -1 to 1 that nobody can tell from random ones."""
        drawn = b"".join(hashlib.shake_256(text.encode()).digest(2 * self._dimensions) for text in texts)
        numbers = np.frombuffer(drawn, dtype="<i2").reshape(len(texts), self._dimensions)
        return numbers.astype(np.float32) / np.float32(1 << 15)


def encoder_text(values: Iterable[str | None]) -> str | None:
    """Return what is encoded of one row: the beginnings of its texts, one a line; None where there is nothing."""
    parts = [value.strip()[:MAX_ENCODED_CHARACTERS] for value in values if value]
    text = "\n".join(part for part in parts if part)
    # half a surrogate pair, which JSON may hold, is no character that could be sent
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()) or None


@dataclass(frozen=True, slots=True)
class _Block:
    """What was learned of the vectors of the texts of some columns together."""

    columns: tuple[str, ...]
    vectors: VectorColumns


class EncodedTexts:
    """The fitted blocks of encoded texts, and how to apply them.

    Each block is as one column of vectors is (`VectorColumns`), but that a row without a text says nothing: it is left
    out of the mean, and its features are zeros.

    Attributes
    ----------
    columns : list of str
        The columns whose texts are read.
    width : int
        Number of features.
    identity : EncoderIdentity or None
        None where there are no blocks.
    """

    def __init__(self, blocks: Sequence[_Block], identity: EncoderIdentity | None) -> None:
        self._blocks = list(blocks)
        self.identity = identity if blocks else None
        self.columns = [name for block in blocks for name in block.columns]
        self.width = sum(block.vectors.width for block in blocks)

    @classmethod
    def fit(
        cls,
        groups: Sequence[Mapping[str, Sequence[str | None]]],
        encoder: Encoder | None,
        beside: float,
        warnings: list[str],
    ) -> Self:
        """Learn means and ranges of the vectors of texts.

        Parameters
        ----------
        groups : sequence of mappings of str to sequence
            Columns whose texts are encoded together, with the texts.
        encoder : Encoder or None
        beside : float
            As of `VectorColumns.fit`.
        warnings : list of str
        """
        identity = encoder.identity() if encoder is not None and groups else None
        if encoder is None or identity is None:
            return cls([], None)
        blocks = []
        for group in groups:
            texts = _texts(list(group.values()))
            distinct = _distinct(texts)
            if not distinct:
                warnings.append(f"column(s) {', '.join(map(repr, group))} are not encoded: they hold no text")
                continue
            vectors, places = _encoded(encoder, texts, distinct, identity.dimensions)
            fitted = VectorColumns.fit({", ".join(group): vectors[places[places >= 0]]}, beside, warnings)
            if fitted.width:
                blocks.append(_Block(tuple(group), fitted))
        return cls(blocks, identity)

    @property
    def feature_names(self) -> list[str]:
        """Readable names, such as `note (encoded)[0]`."""
        return [f"{', '.join(b.columns)} (encoded)[{j}]" for b in self._blocks for j in range(b.vectors.width)]

    @property
    def feature_columns(self) -> list[str]:
        """The columns that each feature is of, as `subject, body` where they are encoded together."""
        return [", ".join(b.columns) for b in self._blocks for _ in range(b.vectors.width)]

    def texts(self, columns: Mapping[str, Sequence[str | None]]) -> list[str]:
        """Return the different texts that are to be encoded for rows, whose columns these are."""
        found = (_distinct(_texts([columns[name] for name in block.columns])) for block in self._blocks)
        return list(dict.fromkeys(text for texts in found for text in texts))

    def transform(
        self,
        columns: Mapping[str, Sequence[str | None]],
        encoder: Encoder | None,
        counts: FeatureCounts,
        out: FloatArray,
    ) -> None:
        """Write the features of texts.

        Parameters
        ----------
        columns : mapping of str to sequence
            The texts of each column.
        encoder : Encoder or None
        counts : FeatureCounts
            `foreign` and `far_rows` are filled in.
        out : float64 array of zeros, of shape (rows, width)

        Raises
        ------
        EncoderNeeded
            If there is no encoder.
        """
        if not self._blocks:
            return
        if encoder is None:
            raise EncoderNeeded("the model encodes texts, and its encoder is not at hand")
        begin = 0
        for block in self._blocks:
            end = begin + block.vectors.width
            texts = _texts([columns[name] for name in block.columns])
            distinct = _distinct(texts)
            if distinct:
                vectors, places = _encoded(encoder, texts, distinct, block.vectors.width)
                rows = np.flatnonzero(places >= 0)
                made, met = np.zeros((len(rows), block.vectors.width)), FeatureCounts()
                block.vectors.transform([vectors[places[rows]]], met, made)
                out[rows, begin:end] = made
                for name in met.distant:
                    counts.foreign[name] = met.distant[name]
                counts.far_rows = sorted({*counts.far_rows, *rows[met.far_rows].tolist()})
            begin = end

    def state(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as arrays; `from_state` takes them."""
        text, ends = pack_strings(self.columns)
        fitted = [block.vectors.state() for block in self._blocks]
        probes = np.zeros(0, dtype=np.float32) if self.identity is None else self.identity.probes.ravel()
        return {
            "encoded_text": text,
            "encoded_ends": ends,
            "encoded_counts": np.array([len(block.columns) for block in self._blocks], dtype=np.int64),
            **{
                f"encoded_{part}": np.concatenate([np.zeros(0), *(each[f"vector_{part}"] for each in fitted)])
                for part in ("mean", "weight", "low", "high")
            },
            "encoded_probes": probes,
        }

    def meta(self) -> dict[str, Any]:
        """What of the encoder is JSON; `from_state` takes it, too."""
        if self.identity is None:
            return {}
        return {
            "model": self.identity.model,
            "dimensions": self.identity.dimensions,
            "probes": list(self.identity.texts),
            "characters": MAX_ENCODED_CHARACTERS,
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Any) -> Self:
        """Rebuild from `state` and `meta`, believing nothing.

        Raises
        ------
        StateError
            If the parts contradict each other.
        """
        columns = unpack_strings(arrays["encoded_text"], arrays["encoded_ends"])
        sizes = arrays["encoded_counts"].tolist()
        if not columns and not sizes:
            return cls([], None)
        identity = _identity(arrays["encoded_probes"], meta)
        if any(size < 1 for size in sizes) or sum(sizes) != len(columns) or len(set(columns)) != len(columns):
            raise StateError("table features: each column of an encoded text belongs to one block")
        dimensions = identity.dimensions
        means = arrays["encoded_mean"]
        ranges = [arrays[f"encoded_{part}"] for part in ("weight", "low", "high")]
        if len(means) != dimensions * len(sizes) or any(len(part) != len(sizes) for part in ranges):
            raise StateError("table features: encoded texts need one mean, weight and range each")
        blocks, begin = [], 0
        for place, size in enumerate(sizes):
            own = tuple(columns[begin : begin + size])
            text, ends = pack_strings([", ".join(own)])
            state: dict[str, NDArray[Any]] = {"vector_text": text, "vector_ends": ends}
            state["vector_lengths"] = np.array([dimensions])
            state["vector_mean"] = means[place * dimensions : (place + 1) * dimensions]
            names = ("vector_weight", "vector_low", "vector_high")
            state |= {name: part[place : place + 1] for name, part in zip(names, ranges, strict=True)}
            blocks.append(_Block(own, VectorColumns.from_state(state)))
            begin += size
        return cls(blocks, identity)


def _identity(probes: NDArray[Any], meta: Any) -> EncoderIdentity:
    """Return the encoder that a model file names."""
    if not isinstance(meta, Mapping):
        raise StateError("table features: 'encoder' must be a JSON object")
    model, dimensions, texts = meta.get("model"), meta.get("dimensions"), meta.get("probes")
    if not isinstance(model, str) or not 0 < len(model) <= MAX_MODEL_NAME:
        raise StateError(f"table features: an encoder has a name of at most {MAX_MODEL_NAME} characters")
    if type(dimensions) is not int or not 1 <= dimensions <= MAX_ENCODED_DIMENSIONS:
        raise StateError(f"table features: an encoder has 1 to {MAX_ENCODED_DIMENSIONS} dimensions")
    if (
        not isinstance(texts, list)
        or not 1 <= len(texts) <= MAX_PROBES
        or not all(isinstance(text, str) and 0 < len(text) <= MAX_ENCODED_CHARACTERS for text in texts)
    ):
        raise StateError(f"table features: an encoder has 1 to {MAX_PROBES} probes")
    if len(probes) != len(texts) * dimensions:
        raise StateError("table features: the probes of an encoder need one vector each")
    if meta.get("characters") != MAX_ENCODED_CHARACTERS:
        raise StateError("table features: texts are cut for their encoder in a way that is not known here")
    return EncoderIdentity(model, tuple(texts), probes.reshape(len(texts), dimensions))


def _texts(columns: Sequence[Sequence[str | None]]) -> list[str | None]:
    """What is encoded of each row."""
    return [encoder_text(values) for values in zip(*columns, strict=True)]


def _distinct(texts: Sequence[str | None]) -> list[str]:
    return list(dict.fromkeys(text for text in texts if text is not None))


def _encoded(
    encoder: Encoder, texts: Sequence[str | None], distinct: list[str], dimensions: int
) -> tuple[VectorArray, NDArray[np.int64]]:
    """The vectors of the different texts, and which of them each row has; -1 for none."""
    vectors = encoder.encode(distinct)
    if vectors.shape != (len(distinct), dimensions) or not np.isfinite(vectors).all():
        raise FeatureError(
            f"the encoder gave an array of the shape {vectors.shape}; expected finite numbers of the shape "
            f"{(len(distinct), dimensions)}"
        )
    places = {text: place for place, text in enumerate(distinct)}
    of_rows = (-1 if text is None else places[text] for text in texts)
    return vectors, np.fromiter(of_rows, np.int64, len(texts))
