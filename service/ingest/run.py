"""Reads an upload in a child process of its own, which may crash, hang and run out of memory without harm."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from service.ingest.errors import Code, IngestError
from service.ingest.limits import (
    MAX_DISTINCT,
    MAX_LISTED_VALUES,
    MAX_MISSING_SPELLINGS,
    MAX_NAME_CHARACTERS,
    ReadingLimits,
)
from service.ingest.options import FORMATS, parse_options
from service.processes import HANDED_TO_READERS, handed
from service.settings import Settings

CHILD = ("-m", "service.ingest.child")
MAX_ANSWER_BYTES = 64 << 20
"""Far above what the profile of a table takes, unless very many columns have long values."""


class ReadingChildKilledError(Exception):
    """Somebody else has killed the reader, maybe the kernel for want of memory; that says nothing about the file."""


Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Listed = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]
Reason = Annotated[str, Field(max_length=2 * MAX_NAME_CHARACTERS)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Column(_Strict):
    name: Name
    kind: Literal["number", "category", "text", "date", "vector", "features"]
    missing: Count
    distinct: Annotated[int, Field(ge=0, le=MAX_DISTINCT)] | None = None
    distinct_capped: bool | None = None
    values: Annotated[dict[Listed, Count], Field(max_length=MAX_LISTED_VALUES)] | None = None
    written: Annotated[dict[Listed, Listed], Field(max_length=MAX_LISTED_VALUES)] | None = None
    min: Finite | None = None
    max: Finite | None = None
    constant: bool | None = None
    earliest: Listed | None = None
    latest: Listed | None = None
    leading_zeros: bool | None = None
    identifier: Listed | None = None
    missing_words: Annotated[dict[Listed, Count], Field(max_length=MAX_MISSING_SPELLINGS)] | None = None
    plus_minus_one: bool | None = None
    count: Count | None = None
    nonzeros: Count | None = None
    length: Count | None = None
    norm_min: Finite | None = None
    norm_mean: Finite | None = None
    norm_max: Finite | None = None
    zero_rows: Count | None = None
    identifiers: Annotated[dict[Name, Listed], Field(max_length=MAX_MISSING_SPELLINGS)] | None = None


def _checked_column(column: dict[str, Any]) -> dict[str, Any]:
    """Return one as it is stored. None stays an object of pydantic: tens of thousands would take 4 KB each."""
    return _Column.model_validate(column).model_dump(exclude_none=True)


CheckedColumn = Annotated[dict[str, Any], AfterValidator(_checked_column)]


class LineCounts(_Strict):
    """What became of the lines of a delimited text, see `service.ingest.quoting.Lines`; the others are rows."""

    total: Count
    header: Count
    blank: Count
    continued: Count


class IngestResult(_Strict):
    """What the reader made of an upload: a `service.ingest.profile.Columnar`, with its profiles of columns as JSON.

    The columnar file itself is at the ``output`` that was passed.

    Attributes
    ----------
    layout : {"table", "matrix"}
        ``table``: Parquet, a column each, float64, string, or bytes of as many float32 numbers a row. ``matrix``:
        safetensors with CSR arrays and labels.
    warnings : list of str
        What the person who sent the file should know.
    seconds, cpu_seconds : float
        What reading took.
    peak_memory_bytes : int
        Largest resident memory of the reader.
    """

    layout: Literal["table", "matrix"]
    rows: Annotated[int, Field(ge=1)]
    duplicate_rows: Count | None
    dropped_rows: Count
    lines: LineCounts | None = None
    left_out: Annotated[dict[Name, Reason], Field(max_length=1_000_000)] = {}
    columns: list[CheckedColumn]
    warnings: list[str]
    seconds: Finite
    cpu_seconds: Finite
    peak_memory_bytes: Count


class _Error(_Strict):
    code: Code
    message: Annotated[str, Field(max_length=10_000)]
    line: Count | None = None
    column: Name | None = None


class _Answer(_Strict):
    result: IngestResult | None = None
    error: _Error | None = None


async def ingest(
    settings: Settings, blob_path: Path, format: str, options: Mapping[str, Any], *, output: Path
) -> IngestResult:
    """Read an upload and write its columnar form.

    Call it on the event loop of the main thread: Linux ends the child together with the *thread* that started it.
    Bounding how many run at once (``Settings.ingest_slots``) is up to the caller.

    Parameters
    ----------
    settings : Settings
        Limits, among them time and memory of the child.
    blob_path : Path
        The upload, see `service.blobs.store.BlobStore.local_path`. It is only read.
    format : str
        One of `service.ingest.options.FORMATS`.
    options : mapping
        As they came out of JSON, see `service.ingest.options.parse_options`.
    output : Path
        Where the columnar file goes; best in a `BlobStore.scratch` folder. Absent after an error.

    Raises
    ------
    IngestError
        Whatever is wrong with the file or the options; also when the child died or met its time or memory limit.
    asyncio.CancelledError
        When the awaiting task was cancelled; the child is gone by then.
    """
    if format not in FORMATS:
        raise IngestError("bad_option", f"unknown format; expected one of {', '.join(FORMATS)}")
    parse_options(format, options)
    with tempfile.TemporaryDirectory(prefix="ingest-", dir=output.parent) as work:
        request = {
            "path": str(blob_path.absolute()),
            "output": str(Path(work) / "columnar"),
            "format": format,
            "options": dict(options),
            "limits": asdict(ReadingLimits.of(settings)),
            "memory_bytes": settings.ingest_memory_bytes,
            "seconds": settings.ingest_seconds,
            "parent": os.getpid(),
        }
        result = _checked_answer(await _run_child(orjson.dumps(request) + b"\n", settings.ingest_seconds))
        (Path(work) / "columnar").rename(output)
    return result


async def _run_child(request: bytes, seconds: float) -> bytes:
    environment = handed(os.environ, HANDED_TO_READERS)
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            sys.executable,
            *CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # What libraries print about a broken file may quote it, so it goes nowhere.
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Who is cancelled while the child starts has none to end yet, and would leave it behind.
        await _kill(await starting)
        raise
    try:
        async with asyncio.timeout(seconds):
            answer = await _converse(process, request)
            status = await process.wait()
    except TimeoutError:
        raise IngestError(
            "timeout", f"reading the file took longer than {seconds:g} s; send less, or Parquet instead of text"
        ) from None
    finally:
        await _kill(process)
    if status == 0:
        return answer
    if status == -signal.SIGXCPU:
        raise IngestError(
            "timeout", "reading the file took too much processor time; send less, or Parquet instead of text"
        )
    if status == -signal.SIGKILL:
        # Its own limits end it otherwise: memory by a MemoryError, processor time by SIGXCPU.
        raise ReadingChildKilledError
    raise IngestError(
        "crashed", "the reader died on this file: it is damaged, or needs more memory than the reader has"
    )


async def _converse(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    assert process.stdin is not None  # noqa: S101 (both are pipes)
    assert process.stdout is not None  # noqa: S101
    # A child that died early is told by its exit status; uvloop raises a RuntimeError where it knows of that already.
    with suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
        process.stdin.write(request)
        await process.stdin.drain()
        process.stdin.close()
    parts: list[bytes] = []
    received = 0
    while part := await process.stdout.read(1 << 16):
        received += len(part)
        if received > MAX_ANSWER_BYTES:
            raise IngestError(
                "crashed",
                f"the reader gave an answer that is no answer, or what is known of the columns takes more than "
                f"{MAX_ANSWER_BYTES >> 20} MiB; then send fewer of them",
            )
        parts.append(part)
    return b"".join(parts)


def _no_answer() -> IngestError:
    return IngestError("crashed", "the reader gave an answer that is no answer")


async def _kill(process: asyncio.subprocess.Process) -> None:
    """End the child and whatever it started, at once, and wait until it is gone."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Shielded: the wait takes milliseconds, and a second cancel must not leave a zombie.
        await asyncio.shield(process.wait())


def _checked_answer(answer: bytes) -> IngestResult:
    """Trust nothing that comes from a process that has read a hostile file."""
    try:
        parsed = _Answer.model_validate_json(answer)
    except ValidationError:
        raise _no_answer() from None
    if parsed.error is not None:
        error = parsed.error
        raise IngestError(error.code, error.message, line=error.line, column=error.column)
    if parsed.result is None:
        raise _no_answer()
    return parsed.result
