"""Read an upload in this process, as the child does, and look at what came out."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from service.ingest.columnar import read_columnar, read_labels
from service.ingest.errors import IngestError
from service.ingest.limits import Limits
from service.ingest.reader import read_upload
from service.settings import Settings

LIMITS = Limits.of(Settings())


class Read:
    """What a reader made of some bytes."""

    def __init__(self, data: bytes, format: str, options: dict[str, Any] | None = None, **limits: int) -> None:
        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder)
        (folder / "in").write_bytes(data)
        self.path = folder / "out"
        self.format, self.options = format, options or {}
        self.result = read_upload(folder / "in", format, options or {}, replace(LIMITS, **limits), self.path)
        assert {each.name for each in folder.iterdir()} == {"in", "out"}, "working files were left behind"
        self.rows = self.result["rows"]
        self.warnings = self.result["warnings"]
        self.columns = {column["name"]: column for column in self.result["columns"]}

    @property
    def table(self) -> dict[str, list[Any]]:
        assert self.result["layout"] == "table"
        return pq.read_table(self.path).to_pydict()

    @property
    def kinds(self) -> dict[str, str]:
        return {name: column["kind"] for name, column in self.columns.items()}

    @property
    def data(self) -> Any:
        return read_columnar(self.path, self.result["layout"])

    def labels(self, target: str) -> list[str | None]:
        return read_labels(self.path, self.result["layout"], target).tolist()


def refusal(data: bytes, format: str, options: dict[str, Any] | None = None, **limits: int) -> IngestError:
    """The error that these bytes give; fails if there is none."""
    with pytest.raises(IngestError) as caught:
        Read(data, format, options, **limits)
    return caught.value
