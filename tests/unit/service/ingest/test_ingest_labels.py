"""What the reader says of labels and delimiters that users often get wrong."""

from __future__ import annotations

import io

import numpy as np
import pytest
from ingest_helpers import Read
from test_ingest_mailbox import MAILS, tarred

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


def test_labels_plus_and_minus_one_are_recognised_as_written() -> None:
    read = Read(b"x,y,z\n1,+1,+1\n2,-1,-1\n3,,0\n", "csv")
    assert read.columns["y"]["kind"] == "category"
    assert read.columns["y"]["plus_minus_one"] is True
    assert read.labels("y") == ["+1", "-1", None]
    assert "plus_minus_one" not in read.columns["x"]
    assert "plus_minus_one" not in read.columns["z"]  # a third value


@pytest.mark.parametrize("delimiter", [";", "|"])
def test_a_header_with_another_delimiter_gets_a_warning(delimiter: str) -> None:
    data = "x,y\n1,a\n2,b\n".replace(",", delimiter).encode()
    (warning,) = Read(data, "csv").warnings
    assert "option delimiter" in warning
    assert repr(delimiter) in warning
    assert Read(data, "csv", {"delimiter": delimiter}).warnings == []


def test_one_column_and_names_with_semicolons_are_no_reason_to_warn() -> None:
    assert Read(b"x\n1\n", "csv").warnings == []
    assert Read(b"a;b,y\n1,2\n", "csv").warnings == []


def test_more_than_two_labels_are_said_where_they_are_known_to_be_labels() -> None:
    assert Read(b"1 1:1\n-1 1:2\n", "svmlight").warnings == []
    (warning,) = Read(b"1 1:1\n2 1:2\n3 1:2\n", "svmlight").warnings
    assert warning.startswith("column 'label' has 3 different labels;")
    assert Read(b"x,label\n1,a\n2,b\n3,c\n", "csv").warnings == []


def test_a_label_is_the_same_however_its_accents_are_written() -> None:
    table = Read(f"x,y\n1,{COMPOSED}\n2,{DECOMPOSED}\n3,\n4,tea\n".encode(), "csv")
    assert table.labels("y") == [COMPOSED, COMPOSED, None, "tea"]
    assert table.table["y"][1] == COMPOSED, "and so is a feature"
    out = io.BytesIO()
    np.savez(out, X=np.eye(3), y=np.array([DECOMPOSED, COMPOSED, "tea"]))
    assert Read(out.getvalue(), "npz").labels("y") == [COMPOSED, COMPOSED, "tea"]
    mail = MAILS["top.eml"]
    folders = Read(tarred({f"{DECOMPOSED}/1.eml": mail, f"{COMPOSED}/2.eml": mail}), "mail")
    assert folders.columns["label"]["values"] == {COMPOSED: 2}
