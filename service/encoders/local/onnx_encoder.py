"""Makes vectors of texts by an ONNX model and its tokenizer, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

from service.encoders.local.folder import TOKENIZER_FILE, EncoderFolder, EncoderFolderError

OF_TEXTS: Final = ("sentence_embedding", "embeddings")
"""What an output is called that has a vector a text."""
OF_TOKENS: Final = ("last_hidden_state", "token_embeddings")
INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
PADDING: Final = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")
MOST_TEXTS: Final = 16
MOST_TOKENS_AT_ONCE: Final = 2_048
"""Of the texts that go through the model together, filled up to the longest: who asks meanwhile waits for no more."""
TYPES: Final = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}

Tokens = list[int]


class OnnxEncoder:
    """An encoder in a folder, loaded.

    Parameters
    ----------
    folder : EncoderFolder
    threads : int
        That one pass through the model may use.

    Attributes
    ----------
    dimensions : int
        Numbers of a vector.

    Raises
    ------
    EncoderFolderError
        If the files are damaged, or the model takes or gives something else than is known here.
    """

    def __init__(self, folder: EncoderFolder, threads: int) -> None:
        self.folder = folder
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        # Threads that turn in circles while they wait take the processor from the API and the worker beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._tokenizer = Tokenizer.from_file(str(folder.path / TOKENIZER_FILE))
        except Exception as error:  # tokenizers raises no other class
            raise EncoderFolderError(f"{folder.path / TOKENIZER_FILE} cannot be read: {str(error)[:200]}") from None
        try:
            self._session = ort.InferenceSession(
                str(folder.path / folder.model), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # nor does ONNX Runtime: each of its classes derives from Exception alone
            raise EncoderFolderError(f"{folder.path / folder.model} cannot be loaded: {str(error)[:200]}") from None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=folder.tokens)
        found = (self._tokenizer.token_to_id(token) for token in PADDING)
        self._padding = next((each for each in found if each is not None), 0)
        self._inputs = {each.name: TYPES.get(each.type) for each in self._session.get_inputs()}
        unknown = sorted(name for name, kind in self._inputs.items() if name not in INPUTS or kind is None)
        if unknown or "input_ids" not in self._inputs:
            raise EncoderFolderError(
                f"the model asks for {', '.join(self._inputs)}; expected {INPUTS[0]}, and perhaps {INPUTS[1]} and "
                f"{INPUTS[2]}"
            )
        names = [each.name for each in self._session.get_outputs()]
        self._output = next((name for name in (*OF_TEXTS, *OF_TOKENS) if name in names), names[0])
        self.dimensions = int(self.vectors([self.tokens(["a"])[0]]).shape[1])

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, with the prefix before it, as many as the model reads."""
        encoded = self._tokenizer.encode_batch([self.folder.prefix + text for text in texts])
        return [each.ids or [self._padding] for each in encoded]

    def vectors(self, tokens: Sequence[Tokens]) -> NDArray[np.float32]:
        """Return the vectors of texts by their tokens, each of length 1.

        Raises
        ------
        EncoderFolderError
            If the model gives something else.
        """
        longest = max(map(len, tokens))
        ids = np.full((len(tokens), longest), self._padding, dtype=np.int64)
        mask = np.zeros((len(tokens), longest), dtype=np.int64)
        for row, each in enumerate(tokens):
            ids[row, : len(each)], mask[row, : len(each)] = each, 1
        given: dict[str, NDArray[np.int64]] = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
        feeds = {name: given[name].astype(kind, copy=False) for name, kind in self._inputs.items() if kind is not None}
        (made,) = self._session.run([self._output], feeds)
        pooled = self._pooled(np.asarray(made), mask)
        if pooled.ndim != 2 or len(pooled) != len(tokens) or not np.isfinite(pooled).all():
            raise EncoderFolderError(
                f"the model gave numbers of the shape {np.asarray(made).shape} for {len(tokens)} texts of {longest} "
                "tokens; expected a finite vector for each text or token"
            )
        lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
        vectors: NDArray[np.float32] = (pooled / np.maximum(lengths, 1e-12)).astype(np.float32)
        return vectors

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts."""
        tokens = self.tokens(texts)
        made = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for places in passes(tokens):
            made[places] = self.vectors([tokens[place] for place in places])
        return made

    def _pooled(self, made: NDArray[Any], mask: NDArray[np.int64]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = made.astype(np.float64)
        if values.ndim != 3 or values.shape[:2] != mask.shape:
            return values
        if self.folder.pooling == "cls":
            return values[:, 0]
        if self.folder.pooling == "lasttoken":
            return np.asarray(values[np.arange(len(values)), mask.sum(axis=1) - 1], dtype=np.float64)
        weights = mask[:, :, None]
        mean: NDArray[np.float64] = (values * weights).sum(axis=1) / weights.sum(axis=1)
        return mean


def passes(tokens: Sequence[Tokens]) -> Iterator[list[int]]:
    """Yield the places of texts that go through the model together: of like length, as all are filled up alike."""
    order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
    held: list[int] = []
    for place in order:
        if held and (len(held) == MOST_TEXTS or (len(held) + 1) * len(tokens[place]) > MOST_TOKENS_AT_ONCE):
            yield held
            held = []
        held.append(place)
    if held:
        yield held
