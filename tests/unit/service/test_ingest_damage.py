"""Files with random damage are read or refused; nothing else happens."""

from __future__ import annotations

import bz2
import gzip
import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest_helpers import Read

from service.ingest.errors import IngestError


def parquet() -> bytes:
    out = io.BytesIO()
    texts = [f"t{i % 9}" for i in range(500)]
    codes = pa.array(["x", None] * 250).dictionary_encode()
    pq.write_table(pa.table({"a": np.arange(500.0), "t": texts, "i": list(range(500)), "d": codes}), out)
    return out.getvalue()


def npz() -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, X=np.arange(40.0).reshape(20, 2), y=np.arange(20))
    return out.getvalue()


WHOLE = {
    "parquet": parquet(),
    "npz": npz(),
    "csv": gzip.compress(b'a,b,"c"\n' + b'1,"x ""y""",z\n' * 50),
    "svmlight": bz2.compress(b"1 1:2 3:4.5 # x\n-1 2:1e3\n" * 50),
}


def damaged(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data))
        match rng.choice(["change", "change", "cut", "insert"]):
            case "change":
                data[at] = rng.randrange(256)
            case "cut":
                del data[at : at + rng.randrange(1, 9)]
            case "insert":
                data[at:at] = rng.randbytes(3)
    return bytes(data)


@pytest.mark.parametrize("format", WHOLE)
@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.fuzz)])
def test_random_damage(format: str, count: int) -> None:
    refused = 0
    for seed in range(count):
        try:
            Read(damaged(WHOLE[format], random.Random(seed)), format)  # noqa: S311 (no secret)
        except (IngestError, MemoryError):  # the child makes a refusal of the latter too
            refused += 1
    assert refused > count // 2
