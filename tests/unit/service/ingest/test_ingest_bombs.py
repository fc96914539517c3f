"""Small files that ask for much: each is refused by the real child, cheaply."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from ingest_helpers import LIMITS

from service.settings import Settings

MAX_STARTS = 20
"""Of the processor time that a child takes for a file of one value, on the same machine; there, that are 0.3 s."""
MAX_MIB = 256
MAX_MIB_OF_PARQUET = 300
"""Its reader unpacks a page, and keeps the dictionary, of what it says are texts."""
MAX_MIB_OF_MILLIONS = 340
"""Of one and a half million rows, which take 12 MiB of it."""
MIB_BY_CHANCE = 32
"""By which two readings of one file differ: several threads, with heaps of their own, take turns."""


# A small process in between, because the memory of a process counts that of the one it was forked from.
MEASURE = """
import json, os, subprocess, sys
request = {**json.loads(sys.stdin.read()), "parent": os.getpid()}
child = subprocess.Popen([sys.executable, "-m", "service.ingest.child"], stdin=subprocess.PIPE, text=True)
child.stdin.write(json.dumps(request) + "\\n")
child.stdin.close()
_, status, used = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
print([used.ru_utime + used.ru_stime, used.ru_maxrss // 1024], flush=True)
sys.exit(child.returncode)
"""


@dataclass
class Cost:
    answer: dict[str, Any]
    seconds: float
    mib: int


def run_child(folder: Path, data: bytes, format: str) -> Cost:
    """Give a file to the child, and measure it from outside."""
    (folder / "in").write_bytes(data)
    settings = Settings()
    request = {
        "path": str(folder / "in"),
        "output": str(folder / "out"),
        "format": format,
        "options": {},
        "limits": asdict(LIMITS),
        "memory_bytes": settings.ingest_memory_bytes,
        "seconds": settings.ingest_seconds,
    }
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    answer, used = done.stdout.splitlines()
    return Cost(json.loads(answer), *json.loads(used))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Processor seconds that a child takes for next to nothing."""
    return run_child(tmp_path_factory.mktemp("start"), b"a\n1\n", "csv").seconds


def gzip_of_zeros() -> bytes:
    return gzip.compress(bytes(1 << 30), 1)


def gzip_of_line_breaks() -> bytes:
    return gzip.compress(b"a,b\n") + gzip.compress(b"\n" * (1 << 26), 9) * 8


def gzip_of_line_breaks_before_the_names() -> bytes:
    return gzip.compress(b"\n" * (1 << 26), 9) * 8 + gzip.compress(b"a,b\n1,2\n")


def gzip_of_equal_rows() -> bytes:
    return gzip.compress(b"a,b\n") + gzip.compress(b"0,0\n" * (1 << 24), 9) * 8


def bzip2_of_equal_rows() -> bytes:
    return bz2.compress(b"1 1:1\n" * 140_000, 9) * 300


def gzip_of_equal_objects() -> bytes:
    return gzip.compress(b'{"a":1}\n' * (1 << 23), 9) * 8


def gzip_of_equal_rows_below_attributes() -> bytes:
    return gzip.compress(b"@relation r\n@attribute a numeric\n@data\n") + gzip.compress(b"1\n" * (1 << 25), 9) * 8


def bzip2_of_line_breaks() -> bytes:
    return bz2.compress(b"\n" * (1 << 26), 9) * 4


def two_million_columns() -> bytes:
    return b"a," * 2_000_000 + b"a\n"


def two_million_values_below_two_columns() -> bytes:
    return b"a,b\n" + b"1," * 400_000 + b"1\n"


def half_a_million_columns_in_a_line_that_is_short_enough() -> bytes:
    return b"a," * 500_000 + b"a\n"


def a_header_without_an_end() -> bytes:
    return b'a,"' + b"x\n" * 3_000_000


def a_value_without_an_end() -> bytes:
    return b'a,b\n1,"' + b"x\n" * 30_000_000


def a_line_of_64_mib() -> bytes:
    return b"a,b\n1," + b"x" * (64 << 20) + b"\n"


def parquet_of_300_million_equal_rows() -> bytes:
    out = io.BytesIO()
    batch = pa.table({"x": np.zeros(10_000_000)})
    with pq.ParquetWriter(out, batch.schema, compression="zstd") as writer:
        for _ in range(30):
            writer.write_table(batch, row_group_size=10_000_000)
    return out.getvalue()


def parquet_of_40_million_equal_texts() -> bytes:
    out = io.BytesIO()
    codes = pa.array(np.zeros(10_000_000, np.int32))
    batch = pa.table({"x": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 500]))})
    with pq.ParquetWriter(out, batch.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(batch, row_group_size=10_000_000)
    return out.getvalue()


def svmlight_index() -> bytes:
    return b"1 1:1\n-1 2147483647:1\n"


def npz_that_promises_8_gib() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("X.npy", "w") as member:
            shape = (1_000_000_000, 1)
            np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": shape})
            member.write(bytes(8 << 20))
        archive.writestr("y.npy", b"")
    return out.getvalue()


def npz_of_a_gib_behind_a_small_header() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("X.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (10, 1)})
            for _ in range(16):
                member.write(bytes(64 << 20))
        with archive.open("y.npy", "w") as member:
            np.lib.format.write_array(member, np.zeros(10))
    return out.getvalue()


def arrow_of_30_million_equal_rows() -> bytes:
    out = io.BytesIO()
    batch = pa.record_batch({"x": np.zeros(1_000_000)})
    with pa.ipc.new_file(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(30):
            writer.write_batch(batch)
    return out.getvalue()


def arrow_of_one_batch_of_a_gib() -> bytes:
    out = io.BytesIO()
    batch = pa.record_batch({"x": np.zeros(1 << 27)})
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return out.getvalue()


def zip_of_mails_of_zeros_and_evil_names() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("spam/1.eml", "spam/2.eml", "spam/3.eml"):
            with archive.open(name, "w") as member:
                for _ in range(50):
                    member.write(bytes(4 << 20))
        for name in ("../../etc/evil.eml", "/abs.eml"):
            archive.writestr(name, "Subject: x")
    return out.getvalue()


def zip_of_a_huge_directory() -> bytes:
    name = b"a.eml"
    entry = b"PK\1\2" + bytes(24) + len(name).to_bytes(2, "little") + bytes(16) + name
    count = (40 << 20) // len(entry)
    end = b"PK\5\6" + bytes(8) + (count * len(entry)).to_bytes(4, "little") + bytes(6)
    return b"PK\3\4" + bytes(26) + entry * count + end


def tar_gz_of_a_mail_of_a_gib() -> bytes:
    info = tarfile.TarInfo("spam/1.eml")
    info.size = 1 << 30
    return gzip.compress(info.tobuf()) + gzip.compress(b"A: b\n\n" + bytes((1 << 26) - 6), 9) * 16


def tar_of_a_name_of_64_mib() -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 64 << 20
    return info.tobuf(tarfile.GNU_FORMAT) + b"x" * (64 << 20)


def jsonl_of_two_million_names() -> bytes:
    return b"".join(b'{"a%d": 1}\n' % i for i in range(200_000))


def jsonl_of_rows_with_names_of_their_own() -> bytes:
    return b"".join(b'{"%d":1}\n' % row for row in range(4000))


def arff_of_rows_that_leave_all_out() -> bytes:
    attributes = b"".join(b"@attribute a%d numeric\n" % column for column in range(2000))
    return attributes + b"@data\n" + b"{}\n" * 4000


def arff_of_a_long_value_that_is_left_out() -> bytes:
    return b"@attribute a {" + b"x" * 100_000 + b",y}\n@data\n" + b"{}\n" * 4000


def jsonl_of_one_long_line() -> bytes:
    return b'{"a": ' + b"[" * (32 << 20)


def arff_of_many_attributes() -> bytes:
    return b"".join(b"@attribute a%d real\n" % i for i in range(200_000))


def mbox_of_many_nested_parts() -> bytes:
    head = b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (i, i) for i in range(20_000))
    return b"From x\n" + head + b"\n" + b"--b0\n\nx\n" * 100_000


def _workbook(cells: bytes, texts: bytes) -> bytes:
    main = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = b"http://schemas.openxmlformats.org/package/2006/relationships"
    link = b'<Relationship Id="%b" Type="' + office + b'/%b" Target="%b"/>'
    parts = {
        "_rels/.rels": b'<Relationships xmlns="%b">%b</Relationships>'
        % (links, link % (b"r1", b"officeDocument", b"xl/workbook.xml")),
        "xl/workbook.xml": b'<workbook %b xmlns:r="%b"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets>'
        % (main, office)
        + b"</workbook>",
        "xl/_rels/workbook.xml.rels": b'<Relationships xmlns="%b">%b%b</Relationships>'
        % (links, link % (b"r1", b"worksheet", b"sheet.xml"), link % (b"r2", b"sharedStrings", b"sharedStrings.xml")),
        "xl/sheet.xml": b"<worksheet %b><sheetData>%b</sheetData></worksheet>" % (main, cells),
        "xl/sharedStrings.xml": b"<sst %b>%b</sst>" % (main, texts),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def workbook_of_a_cell_far_away() -> bytes:
    return _workbook(b'<row r="1"><c r="A1"><v>1</v></c><c r="XFD1048576"><v>1</v></c></row>', b"")


def workbook_of_a_cell_at_the_end_of_a_wide_sheet() -> bytes:
    return _workbook(b'<row r="1"><c r="A1"><v>1</v></c><c r="CV1048576"><v>1</v></c></row>', b"")


def workbook_of_one_long_text_in_many_cells() -> bytes:
    row = b'<row><c t="s"><v>0</v></c><c t="s"><v>0</v></c></row>'
    return _workbook(row * 50_000, b"<si><t>%b</t></si>" % (b"x" * (1 << 20)))


def workbook_of_a_row_of_17_mib() -> bytes:
    row = b'<row r="1"><c r="A1"><v>1</v></c>%b</row>' % (b" " * (17 << 20))
    return _workbook(row + b'<row r="2"><c r="A2"><v>2</v></c></row>', b"")


def workbook_of_a_gib() -> bytes:
    return _workbook(b"", b"<si><t>" + b"x" * (1 << 30) + b"</t></si>")


QUICK: list[tuple[Callable[[], bytes], str, str]] = [
    (two_million_columns, "csv", "too_long"),
    (half_a_million_columns_in_a_line_that_is_short_enough, "csv", "too_many_columns"),
    (two_million_values_below_two_columns, "csv", "ragged"),
    (a_header_without_an_end, "csv", "malformed"),
    (a_line_of_64_mib, "csv", "too_long"),
    (svmlight_index, "svmlight", "index_too_large"),
    (npz_that_promises_8_gib, "npz", "expands_too_much"),
    (arff_of_many_attributes, "arff", "too_many_columns"),
    (jsonl_of_two_million_names, "jsonl", "expands_too_much"),
    (jsonl_of_rows_with_names_of_their_own, "jsonl", "expands_too_much"),
    (arff_of_rows_that_leave_all_out, "arff", "expands_too_much"),
    (arff_of_a_long_value_that_is_left_out, "arff", "expands_too_much"),
    (workbook_of_a_cell_far_away, "xlsx", "too_many_cells"),
    (workbook_of_a_cell_at_the_end_of_a_wide_sheet, "xlsx", "too_many_cells"),
    (workbook_of_one_long_text_in_many_cells, "xlsx", "expands_too_much"),
    (workbook_of_a_row_of_17_mib, "xlsx", "too_long"),
]
SLOW: list[tuple[Callable[[], bytes], str, str]] = [
    (gzip_of_zeros, "csv", "malformed"),
    (gzip_of_line_breaks, "csv", "expands_too_much"),
    (gzip_of_line_breaks_before_the_names, "csv", "expands_too_much"),
    (gzip_of_equal_rows, "csv", "expands_too_much"),
    (gzip_of_equal_objects, "jsonl", "expands_too_much"),
    (gzip_of_equal_rows_below_attributes, "arff", "expands_too_much"),
    (bzip2_of_equal_rows, "svmlight", "expands_too_much"),
    (bzip2_of_line_breaks, "svmlight", "expands_too_much"),
    (a_value_without_an_end, "csv", "malformed"),
    (parquet_of_40_million_equal_texts, "parquet", "expands_too_much"),
    (parquet_of_300_million_equal_rows, "parquet", "too_many_rows"),
    (npz_of_a_gib_behind_a_small_header, "npz", "malformed"),
    (arrow_of_30_million_equal_rows, "arrow", "expands_too_much"),
    (arrow_of_one_batch_of_a_gib, "arrow", "too_many_rows"),
    (zip_of_mails_of_zeros_and_evil_names, "mail", "malformed"),
    (zip_of_a_huge_directory, "mail", "unsupported"),
    (tar_gz_of_a_mail_of_a_gib, "mail", "expands_too_much"),
    (tar_of_a_name_of_64_mib, "mail", "malformed"),
    (jsonl_of_one_long_line, "jsonl", "too_long"),
    (workbook_of_a_gib, "xlsx", "too_long"),
]


@pytest.mark.parametrize(
    ("make", "format", "code"),
    [
        *(pytest.param(*case, id=case[0].__name__) for case in QUICK),
        *(pytest.param(*case, id=case[0].__name__, marks=pytest.mark.slow) for case in SLOW),
    ],
)
def test_bomb(tmp_path: Path, start: float, make: Callable[[], bytes], format: str, code: str) -> None:
    cost = run_child(tmp_path, make(), format)
    print(f"{make.__name__}: {cost.answer} {cost.seconds:.2f} s {cost.mib} MiB")
    assert cost.answer.get("error", {}).get("code") == code
    assert cost.seconds < MAX_STARTS * start
    assert cost.mib < (MAX_MIB_OF_PARQUET if format == "parquet" else MAX_MIB)


@pytest.mark.slow
def test_a_hostile_mail_is_cut(tmp_path: Path, start: float) -> None:
    cost = run_child(tmp_path, mbox_of_many_nested_parts(), "mail")
    print(f"{cost.answer} {cost.seconds:.2f} s {cost.mib} MiB")
    assert any("left out" in warning for warning in cost.answer["result"]["warnings"])
    assert cost.seconds < MAX_STARTS * start
    assert cost.mib < MAX_MIB


@pytest.mark.slow
def test_memory_does_not_grow_with_an_honest_file(tmp_path: Path) -> None:
    """But for a hash of each row, 8 bytes, by which equal ones are counted."""
    rows = "".join(",".join([*(f"{i * j / 7:.6f}" for j in range(20)), f"k{i % 50}"]) + "\n" for i in range(10_000))
    costs = []
    for times in (50, 150):
        data = (",".join(f"c{j}" for j in range(21)) + "\n" + rows * times).encode()
        costs.append(run_child(tmp_path, data, "csv"))
        print(f"{len(data) >> 20} MiB: {costs[-1].seconds:.2f} s {costs[-1].mib} MiB")
        assert costs[-1].answer["result"]["rows"] == 10_000 * times
        del data
    assert costs[1].mib < MAX_MIB_OF_MILLIONS
    assert costs[1].mib - costs[0].mib < 8 + MIB_BY_CHANCE
