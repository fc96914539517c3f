"""Read an upload in this process, as the child does, and look at what came out."""

from __future__ import annotations

import datetime
import io
import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import xlsxwriter

from service.ingest.columnar import read_columnar, read_labels
from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits
from service.ingest.reader import read_upload
from service.settings import Settings

LIMITS = ReadingLimits.of(Settings())


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


def book(rows: list[list[Any]], *, sheets: int = 1, **options: Any) -> bytes:
    """A workbook of XlsxWriter; a text that begins with ``=`` is a formula, whose value stands behind a bar."""
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True, **options}) as written:
        day = written.add_format({"num_format": "yyyy-mm-dd"})
        time = written.add_format({"num_format": "dd/mm/yyyy hh:mm:ss"})
        hours = written.add_format({"num_format": "[h]:mm"})
        sheet = written.add_worksheet("first")
        for _ in range(sheets - 1):
            written.add_worksheet().write(0, 0, "other")
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                match value:
                    case None:
                        pass
                    case bool():
                        sheet.write_boolean(i, j, value)
                    case datetime.datetime():
                        sheet.write_datetime(i, j, value, time)
                    case datetime.date():
                        sheet.write_datetime(i, j, value, day)
                    case datetime.timedelta():
                        sheet.write_datetime(i, j, value, hours)
                    case str() if value.startswith("="):
                        formula, _, result = value.partition("|")
                        sheet.write_formula(i, j, formula, None, result if result.startswith("#") else float(result))
                    case str():
                        sheet.write_string(i, j, value)
                    case _:
                        sheet.write_number(i, j, value)
    return out.getvalue()
