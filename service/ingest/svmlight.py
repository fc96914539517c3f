"""Reads svmlight (libsvm) files: ``label index:value index:value … # comment``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits
from service.ingest.matrix import MatrixWriter
from service.ingest.options import SvmlightOptions
from service.ingest.profile import Columnar
from service.ingest.stream import check_beginning, recoded, unpacked, with_bounded_lines, with_last_line_ended

LABEL = "label"
BLOCK_BYTES = 2 << 20
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INDEX = re.compile(rb"[0-9]+")
_COMMENT = re.compile(rb"#[^\n]*")
_QUERY = re.compile(rb"(?m)^([ \t]*[^\s:]+[ \t]+)qid:[0-9]+(?=\s)")
_WORD = re.compile(rb"[^ \t\r]+")
_IN_TOKENS = np.zeros(256, dtype=bool)
_IN_TOKENS[np.frombuffer(b"0123456789+-.eE", dtype=np.uint8)] = True
_BETWEEN = np.zeros(256, dtype=bool)
_BETWEEN[np.frombuffer(b" \t\r\n:", dtype=np.uint8)] = True


@dataclass
class _Rows:
    labels: NDArray[np.float64]
    counts: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: NDArray[np.float64]


_NO_ROWS = _Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def read_svmlight(
    path: Path, options: SvmlightOptions, limits: ReadingLimits, output: Path, warnings: list[str]
) -> Columnar:
    """Write the ``matrix`` layout of a svmlight file, maybe packed by gzip or bzip2.

    Labels are numbers. Query ids (``qid:3``) and comments are ignored. Indices must ascend within a line.

    Raises
    ------
    IngestError
    """
    check_beginning(path, limits)
    smallest, largest = limits.max_feature_index, 0
    queries = False
    with MatrixWriter(output, limits, dtype="float64", label=LABEL, text_labels=False) as writer:
        for first_line, block in _blocks(path, limits):
            if b"#" in block:
                block = _COMMENT.sub(b"", block)
            if b"qid:" in block:
                block, found = _QUERY.subn(rb"\1", block)
                queries = queries or found > 0
            rows = _parse_quickly(block, limits)
            if rows is None:
                rows = _parse_line_by_line(block, first_line, limits)
            if len(rows.indices):
                smallest = min(smallest, int(rows.indices.min()))
                largest = max(largest, int(rows.indices.max()))
            writer.write(rows.counts, rows.indices, rows.values, pa.array(rows.labels))
        zero_based = smallest == 0 if options.zero_based == "auto" else options.zero_based
        if not zero_based and smallest == 0:
            raise IngestError("bad_value", "a feature has the index 0; expected 1 or more, as option zero_based says")
        if queries:
            warnings.append("query ids (qid:…) are ignored")
        first_index = 0 if zero_based else 1
        return writer.close(largest + 1 - first_index, warnings, first_index=first_index, index_shift=first_index)


def _blocks(path: Path, limits: ReadingLimits) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines, some megabytes at a time, and the number of the first."""
    chunks = with_bounded_lines(recoded(unpacked(path, limits), None), limits.max_line_bytes)
    line = 1
    waiting: list[bytes] = []
    size = 0
    for chunk in with_last_line_ended(chunks):
        size += len(chunk)
        if size < BLOCK_BYTES:
            waiting.append(chunk)
            continue
        head, newline, tail = chunk.rpartition(b"\n")
        block = b"".join([*waiting, head, newline])
        waiting, size = [tail], len(tail)
        if block.endswith(b"\n"):
            yield line, block
            line += block.count(b"\n")
        else:
            waiting, size = [block, tail], len(block) + len(tail)
    if size:
        yield line, b"".join(waiting)


def _parse_quickly(block: bytes, limits: ReadingLimits) -> _Rows | None:
    """Parse lines without a loop; None if something about them is out of the ordinary, which includes every error."""
    text = np.frombuffer(block, dtype=np.uint8)
    in_token = _IN_TOKENS[text]
    if not (in_token | _BETWEEN[text]).all():
        return None
    edges = np.flatnonzero(np.diff(in_token, prepend=False, append=False)).astype(np.int32)
    starts, ends = edges[::2], edges[1::2]
    if len(starts) == 0:
        return None if (text == ord(":")).any() else _NO_ROWS
    colon = text == ord(":")
    after_colon = colon[starts - 1]
    after_colon[0] = False
    before_colon = colon[ends[:-1]]
    if np.count_nonzero(colon) != np.count_nonzero(after_colon) or not np.array_equal(before_colon, after_colon[1:]):
        return None
    line = np.cumsum(text == ord("\n"), dtype=np.int32)[starts]
    firsts = np.flatnonzero(np.diff(line, prepend=-1))
    tokens = np.diff(firsts, append=len(starts))
    place = np.arange(len(starts)) - np.repeat(firsts, tokens)
    is_index = place % 2 == 1
    is_value = (place > 0) & ~is_index
    if not (tokens % 2).all() or not np.array_equal(is_value, after_colon):
        return None
    # Arrow would take a sign in front of an index.
    leading = text[starts[is_index]]
    if not ((leading >= ord("0")) & (leading <= ord("9"))).all():
        return None
    # Tokens and what is between them, as one array of strings over the block itself.
    pieces = pa.StringArray.from_buffers(len(edges) - 1, pa.py_buffer(edges), pa.py_buffer(block))
    try:
        labels = _numbers(pieces, firsts, pa.float64())
        indices = _numbers(pieces, np.flatnonzero(is_index), pa.int64())
        values = _numbers(pieces, np.flatnonzero(is_value), pa.float64())
    except pa.ArrowInvalid:
        return None
    counts = tokens // 2
    if not (np.isfinite(labels).all() and np.isfinite(values).all()):
        return None
    if len(indices):
        steps = np.diff(indices)
        row_starts = np.cumsum(counts)[:-1]
        steps[row_starts[(row_starts > 0) & (row_starts < len(indices))] - 1] = 1
        if indices.min() < 0 or indices.max() > limits.max_feature_index or (steps <= 0).any():
            return None
    return _Rows(labels, counts.astype(np.int64), indices, values)


def _numbers(pieces: pa.StringArray, which: NDArray[np.intp], type_: pa.DataType) -> NDArray[Any]:
    # A piece between two tokens follows each token.
    numbers: NDArray[Any] = pc.cast(pieces.take(pa.array(2 * which)), type_).to_numpy()
    return numbers


def _parse_line_by_line(block: bytes, first_line: int, limits: ReadingLimits) -> _Rows:
    """Parse lines with a loop, slowly, to say what is wrong and where."""
    labels: list[float] = []
    counts: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for number, line in enumerate(block.split(b"\n"), start=first_line):
        words = _WORD.findall(line)
        if not words:
            continue
        labels.append(_finite(words[0], "the label", number))
        previous = -1
        for word in words[1:]:
            index_text, colon, value_text = word.partition(b":")
            if not colon or not _INDEX.fullmatch(index_text):
                raise IngestError(
                    "malformed", "expected index:value, separated by blanks, with whole indices from 0", line=number
                )
            # Long texts of digits are not turned into numbers at all.
            digits = index_text.lstrip(b"0")
            if len(digits) > len(str(limits.max_feature_index)) or int(digits or b"0") > limits.max_feature_index:
                raise IngestError(
                    "index_too_large",
                    f"a feature index above {limits.max_feature_index}, which is the largest allowed",
                    line=number,
                )
            index = int(digits or b"0")
            if index <= previous:
                raise IngestError(
                    "malformed",
                    "a feature index that is not above the one before it; expected ascending indices, each once",
                    line=number,
                )
            previous = index
            indices.append(index)
            values.append(_finite(value_text, "a feature value", number))
        counts.append(len(words) - 1)
    return _Rows(
        np.array(labels, np.float64),
        np.array(counts, np.int64),
        np.array(indices, np.int64),
        np.array(values, np.float64),
    )


def _finite(text: bytes, what: str, line: int) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise IngestError(
            "bad_value", f"{what} is not a finite number; expected lines of label index:value …, all numbers", line=line
        )
    return value
