"""Reads damaged files, one after the other, in a process that may die of it: ``damage_runner.py FORMATS FIRST COUNT``.

Prints a line a file: its number and what came of it. Then the largest memory of the process in MiB.
"""

from __future__ import annotations

import bz2
import gzip
import io
import random
import resource
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import xlsxwriter

from service.ingest.errors import IngestError
from service.ingest.limits import ReadingLimits
from service.ingest.reader import read_upload
from service.settings import Settings

TABLE = pa.table(
    {
        "a": np.arange(200.0),
        "t": [f"t{i % 9}" for i in range(200)],
        "i": list(range(200)),
        "d": pa.array(["x", None] * 100).dictionary_encode(),
        "b": [True, False] * 100,
    }
)
MAIL = (
    b"From: a@b\nSubject: =?utf-8?q?h=C3=A4?=\nDate: Sat, 28 Nov 2026 02:30:00 +0000\n"
    b'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/plain; charset=latin-1\n'
    b"Content-Transfer-Encoding: base64\n\naGFsbG8=\n--x\nContent-Type: text/html\n\n<p>hi</p>\n--x--\n"
)


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE, out)
    return out.getvalue()


def arrow(compression: str | None) -> bytes:
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(out, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE, max_chunksize=80)
    return out.getvalue()


def npz() -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, X=np.arange(40.0).reshape(20, 2), y=np.arange(20))
    return out.getvalue()


def sparse_npz() -> bytes:
    out = io.BytesIO()
    np.savez(
        out,
        data=np.arange(4.0),
        indices=np.array([0, 1, 0, 2]),
        indptr=np.array([0, 2, 4]),
        shape=np.array([2, 3]),
        y=np.array(["a", "b"]),
    )
    return out.getvalue()


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("spam/1.eml", "ham/" + "x" * 120 + ".eml", "ham/ä.eml"):
            info = tarfile.TarInfo(name)
            info.size = len(MAIL)
            archive.addfile(info, io.BytesIO(MAIL))
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("spam/1.eml", "ham/2.eml"):
            archive.writestr(name, MAIL)
    return out.getvalue()


def workbook() -> bytes:
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as written:
        sheet = written.add_worksheet()
        for i, row in enumerate([("a", "b c", "d"), *[(1.5, "x & y", "ä"), (-2e10, "z", "")] * 10]):
            for j, value in enumerate(row):
                sheet.write(i, j, value)
    return out.getvalue()


WHOLE: dict[str, list[bytes]] = {
    "csv": [b'a,b,"c",d\n' + b'1,"x ""y""",z,2026-01-02\n-2.5e3,,"q\nr",\n' * 20],
    "tsv": [b"a\tb\n" + b"1\tx\n" * 40],
    "jsonl": [b'{"a": 1, "b": "x", "c": true}\n{"a": null, "d": 1.5e3, "b": "\\u00e4"}\n' * 20],
    "parquet": [parquet()],
    "arrow": [arrow(None), arrow("zstd"), arrow("lz4")],
    "arff": [
        b"@relation r\n@attribute a real\n@attribute 'b c' {x,'y z'}\n@attribute s string\n@data\n"
        + b"1,x,'q\\'r'\n?,'y z',%c\n" * 10,
        b"@relation r\n@attribute a real\n@attribute b {x,y}\n@data\n" + b"{0 1.5, 1 y}\n{}\n{1 x}\n" * 10,
    ],
    "svmlight": [b"1 1:2 3:4.5 # x\n-1 2:1e3\n+1 qid:3 1:1\n" * 30],
    "npz": [npz(), sparse_npz()],
    "mail": [tar(), zipped(), b"".join(b"From a Sat\n" + MAIL + b"\n" for _ in range(3))],
    "xlsx": [workbook()],
}
PACKED: dict[str, list[Callable[[bytes], bytes]]] = {
    "csv": [gzip.compress],
    "svmlight": [gzip.compress, bz2.compress],
    "jsonl": [gzip.compress],
    "arff": [gzip.compress],
    "mail": [gzip.compress, bz2.compress],
}
NASTY = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b"'", b",", b"{", b"}", b"\\", b"%", b"?"),
    *(b"1e999", b"-1e400", b"nan", b"Infinity", b"9" * 400, b"0x1p9999", b"2147483647:1", b"18446744073709551616:1"),
    *(b"[" * 3000, b'{"a":' * 3000, b'"\\ud800"', b"\\u0000", b"a" * 70_000, b"," * 20_000, b"\n" * 5000),
    *(b"../../etc/passwd", b"/abs.eml", b"From ", b"\nFrom x\n", b"--x\n" * 2000, b"=?utf-8?b?" * 500, b"&#x110000;"),
    *(b"@attribute x {", b"@data", b"PAR1", b"ARROW1\0\0", b"PK\3\4", b"\x1f\x8b", b"BZh9", b"\xff\xff\xff\x7f"),
]


def damaged(format: str, number: int) -> bytes:
    """Return a file of the format with some damage, always the same for a number."""
    rng = random.Random(f"{format} {number}")  # noqa: S311 (no secret)
    data = bytearray(rng.choice(WHOLE[format]))
    for _ in range(rng.choice([0, 1, 1, 2, 5, 20])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 | 1:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del data[at : at + rng.choice([1, 4, 8, 100])]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                data[at:at] = rng.choice(NASTY)
            case 5:
                data[at : at + 8] = rng.choice([2**31 - 1, 2**32, 2**62, -1, 2**16]).to_bytes(8, "little", signed=True)
            case 6:
                data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randrange(1, 500)]
    packed = bytes(data)
    if rng.random() < 0.3 and format in PACKED:
        packed = rng.choice(PACKED[format])(packed)
        if rng.random() < 0.5:
            at = rng.randrange(len(packed))
            packed = packed[:at] + rng.randbytes(rng.randrange(3)) + packed[at + rng.randrange(9) :]
    if rng.random() < 0.05:
        packed = rng.choice(WHOLE[rng.choice(list(WHOLE))])  # a file of another format
    return packed


def outcome(format: str, data: bytes, limits: ReadingLimits) -> str:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    try:
        (folder / "in").write_bytes(data)
        read_upload(folder / "in", format, {}, limits, folder / "out")  # type: ignore[arg-type]
    except IngestError as error:
        return error.code
    except MemoryError:  # the child makes a refusal of it
        return "out_of_memory"
    else:
        return "read"
    finally:
        shutil.rmtree(folder)


def main() -> None:
    formats, first, count = sys.argv[1].split(","), int(sys.argv[2]), int(sys.argv[3])
    settings = Settings()
    resource.setrlimit(resource.RLIMIT_AS, (settings.ingest_memory_bytes,) * 2)
    limits = ReadingLimits.of(settings)
    for format in formats:
        for number in range(first, first + count):
            print(number, outcome(format, damaged(format, number), limits), flush=True)
    with open("/proc/self/status") as status:
        print("MiB", next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) // 1024)


if __name__ == "__main__":
    main()
