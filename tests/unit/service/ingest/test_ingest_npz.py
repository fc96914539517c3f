from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ingest_helpers import Read, refusal
from scipy import sparse

X = np.array([[1, 2.5], [np.nan, -3], [0, 0]])
Y = np.array([1, -1, 1])
VECTORS = {"vectors": True}
SHARED = Path(os.environ.get("PREFSVM_SHARED_DATA", Path(__file__).parents[5] / "shared" / "data"))


def packed(save: Any = np.savez_compressed, /, **arrays: Any) -> bytes:
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def npy(array: np.ndarray, **how: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **how)
    return out.getvalue()


def header(shape: tuple[int, ...], dtype: str, fortran: bool = False) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return out.getvalue()


def csr(X: Any, y: Any, **more: Any) -> bytes:
    X = sparse.csr_array(X)
    return packed(data=X.data, indices=X.indices, indptr=X.indptr, shape=np.array(X.shape), y=y, **more)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense(save: Any, order: Any) -> None:
    read = Read(packed(save, X=np.asarray(X, order=order), y=Y), "npz")
    assert read.table == {"f0": [1, None, 0], "f1": [2.5, -3, 0], "y": [1, -1, 1]}
    assert read.labels("y") == ["1", "-1", "1"]
    assert read.warnings == []


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", ">f8", ">i4"])
def test_dense_types(dtype: str) -> None:
    values = np.array([[1, 0], [0, 1]]).astype(dtype)
    assert Read(packed(X=values, y=Y[:2]), "npz").table == {"f0": [1, 0], "f1": [0, 1], "y": [1, -1]}


def test_labels() -> None:
    assert Read(packed(X=X, y=np.array(["spam", "", "häm"])), "npz").labels("y") == ["spam", None, "häm"]
    assert Read(packed(X=X, y=np.array([b"a", b"b", b""])), "npz").labels("y") == ["a", "b", None]
    assert Read(packed(X=X, y=np.array([[1.0], [np.nan], [0.5]])), "npz").labels("y") == ["1", None, "0.5"]
    assert Read(packed(X=X, y=np.array([True, False, True])), "npz").labels("y") == ["true", "false", "true"]
    texts = Read(csr(np.eye(3), np.array(["spam", "", "häm"])), "npz")
    assert texts.labels("y") == ["spam", None, "häm"]
    assert texts.columns["y"] == {
        "name": "y", "kind": "category", "missing": 1, "distinct": 2, "constant": False, "leading_zeros": False,
        "values": {"häm": 1, "spam": 1},
    }  # fmt: skip
    assert Read(csr(np.eye(3), np.array([1, np.nan, -1])), "npz").labels("y") == ["1", None, "-1"]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_sparse(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    matrix = sparse.random_array((2000, 300), density=0.05, rng=rng, format="csr") * 100
    matrix = matrix.astype(dtype)
    labels = rng.integers(0, 3, 2000)
    read = Read(csr(matrix, labels, format=b"csr"), "npz")
    np.testing.assert_array_equal(read.data.X.toarray(), matrix.toarray())
    assert read.data.X.shape == (2000, 300)
    assert read.data.X.indices.dtype == np.int32
    assert read.data.first_index == 0
    assert read.labels("y") == [str(label) for label in labels]


def test_without_labels() -> None:
    dense = Read(packed(X=X, labels=Y), "npz")
    assert dense.table == {"f0": [1, None, 0], "f1": [2.5, -3, 0]}
    assert dense.warnings[:2] == ["there is no array y: the rows have no labels", "arrays that are not used: labels"]
    eye = sparse.csr_array(np.eye(3))
    matrix = Read(packed(data=eye.data, indices=eye.indices, indptr=eye.indptr, shape=np.array([3, 3])), "npz")
    assert matrix.data.X.toarray().tolist() == np.eye(3).tolist()
    assert matrix.labels("y") == [None] * 3
    assert (matrix.columns["y"]["missing"], matrix.columns["y"]["distinct"]) == (3, 0)
    assert refusal(packed(X=np.empty((3, 0))), "npz").code == "empty"
    assert refusal(packed(X=np.empty((3, 0)), y=Y), "npz").code == "empty"
    assert refusal(packed(X=X), "npz", {"columns": {"y": "category"}}).code == "unknown_column"


def test_unsorted_indices_are_sorted() -> None:
    arrays = {"indptr": np.array([0, 3, 5]), "shape": np.array([2, 4]), "y": Y[:2]}
    read = Read(packed(data=np.arange(5.0), indices=np.array([3, 0, 2, 1, 0]), **arrays), "npz")
    assert read.data.X.toarray().tolist() == [[1, 0, 2, 0], [4, 3, 0, 0]]
    assert read.data.X.has_canonical_format
    assert refusal(packed(data=np.arange(5.0), indices=np.array([3, 0, 3, 1, 0]), **arrays), "npz").code == "malformed"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"indptr": np.array([0, 2, 1, 3])}, "malformed"),
        ({"indptr": np.array([1, 2, 3, 3])}, "malformed"),
        ({"indptr": np.array([0, 1, 2, 2])}, "malformed"),
        ({"indptr": np.array([0, 1, 2, 2**62])}, "malformed"),
        ({"indptr": np.array([0, 1, -5, 3])}, "malformed"),
        ({"indptr": np.array([0, 1, 3])}, "malformed"),
        ({"indptr": np.array([0.0, 1, 2, 3])}, "malformed"),
        ({"indices": np.array([0, 1, 3])}, "malformed"),
        ({"indices": np.array([0, 1, -1])}, "malformed"),
        ({"indices": np.array([0, 1, 2**40])}, "malformed"),
        ({"indices": np.array([[0, 1, 2]])}, "malformed"),
        ({"indices": np.array([0, 1])}, "malformed"),
        ({"shape": np.array([3, 2**40])}, "index_too_large"),
        ({"shape": np.array([2**40, 3])}, "malformed"),
        ({"shape": np.array([-3, 3])}, "malformed"),
        ({"shape": np.array([3, 3, 3])}, "malformed"),
        ({"data": np.array([1, np.nan, 3])}, "bad_value"),
        ({"data": np.array([1, 2, 3j])}, "unsupported"),
        ({"data": np.array(["1", "2", "3"])}, "unsupported"),
        ({"y": np.array([1, 2])}, "malformed"),
        ({"y": np.array([1, 2, np.inf])}, "bad_value"),
        ({"y": np.array([1, 2, 3j])}, "unsupported"),
        ({"y": np.array(["x" * 300, "b", "c"])}, "bad_label"),
        ({"y": np.array([b"\xff", b"b", b"c"])}, "bad_encoding"),
    ],
)
def test_arrays_that_do_not_fit(change: dict[str, np.ndarray], code: str) -> None:
    eye = sparse.csr_array(np.eye(3))
    arrays = {"data": eye.data, "indices": eye.indices, "indptr": eye.indptr, "shape": np.array([3, 3]), "y": Y}
    assert Read(packed(**arrays), "npz").rows == 3
    assert refusal(packed(**{**arrays, **change}), "npz").code == code


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(tmp_path / "pwned"),)

    for name in ("X", "y"):
        arrays = {"X": X, "y": Y, name: np.array([Bomb()] * 3, dtype=object)}
        error = refusal(packed(**arrays), "npz")
        assert (error.code, name in error.message) == ("unsupported", True)
    assert not (tmp_path / "pwned").exists()
    structured = np.zeros(3, dtype=[("a", "O")])
    assert refusal(packed(X=X, y=structured), "npz").code == "unsupported"


def test_headers_that_lie() -> None:
    y = npy(Y)
    for shape, data, code in (
        ((2**40, 2**20), b"", "expands_too_much"),
        ((10**6, 1000), b"\0" * 100, "expands_too_much"),
        ((10**5, 10), b"\0" * 100, "truncated"),
        ((3, 2), b"\0" * 40, "truncated"),
        ((3, 2), b"\0" * 56, "malformed"),
        ((-3, 2), b"\0" * 48, "malformed"),
        ((3,), b"\0" * 24, "malformed"),
        ((3, 1, 2), b"\0" * 48, "malformed"),
    ):
        assert refusal(zipped({"X.npy": header(shape, "<f8") + data, "y.npy": y}), "npz").code == code, shape
    for bad in (
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\0\0\0",
        header((3, 2), "<f8").replace(b"'descr'", b"__imp__"),
        b"x" * 1000,
    ):
        assert refusal(zipped({"X.npy": bad, "y.npy": y}), "npz").code == "malformed"
    huge = b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little")
    assert refusal(zipped({"X.npy": huge + b"(" * 100_000, "y.npy": y}), "npz").code == "malformed"


def test_zip_names_lead_nowhere() -> None:
    members = {"X.npy": npy(X), "y.npy": npy(Y), "../../evil.npy": b"x", "/abs.npy": b"y", "bell\x07.npy": b"z"}
    read = Read(zipped(members), "npz")
    assert read.rows == 3
    (warning,) = read.warnings
    assert "\x07" not in warning
    assert not Path("/abs.npy").exists()


def test_damaged_archives() -> None:
    data = packed(np.savez, X=np.arange(2000.0).reshape(-1, 2), y=np.zeros(1000))
    assert refusal(b"", "npz").code == "malformed"
    assert refusal(b"not a zip", "npz").code == "malformed"
    assert refusal(data[: len(data) // 2], "npz").code == "malformed"
    assert refusal(data[:200] + b"\xff" * 50 + data[250:], "npz").code == "malformed"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("X.npy", npy(X))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("X.npy", npy(X))
    assert refusal(out.getvalue(), "npz").code == "malformed"
    assert refusal(packed(a=X, y=Y), "npz").code == "malformed"
    assert refusal(packed(y=Y), "npz").code == "malformed"
    many = {f"a{i}.npy": b"" for i in range(1001)}
    assert refusal(zipped(many), "npz").code == "malformed"


def test_limits() -> None:
    data = packed(X=np.zeros((20, 5)), y=np.zeros(20))
    assert refusal(data, "npz", max_rows=19).code == "too_many_rows"
    assert refusal(data, "npz", max_columns=5).code == "too_many_columns"
    assert refusal(data, "npz", max_cells=119).code == "too_many_cells"
    found = refusal(data, "npz", max_bytes=799)
    assert (found.code, found.message) == ("expands_too_much", "the file unpacks to more than the 799 bytes allowed")
    data = csr(np.eye(20), np.zeros(20))
    assert refusal(data, "npz", max_rows=19).code == "too_many_rows"
    assert refusal(data, "npz", max_cells=19).code == "too_many_cells"
    assert refusal(data, "npz", max_feature_index=18).code == "index_too_large"
    assert refusal(packed(X=np.array([[np.inf]]), y=np.zeros(1)), "npz").code == "bad_value"
    assert refusal(packed(X=np.zeros((0, 2)), y=np.zeros(0)), "npz").code == "empty"
    assert refusal(csr(np.zeros((3, 3)), Y), "npz").code == "empty"


@pytest.mark.parametrize("name", ["adult_a9a", "echocardiogram", "ionosphere", "newsgroups_w100", "vehicle"])
def test_published_data_sets(name: str) -> None:
    path = SHARED / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"the shared data sets are not here: {path} (PREFSVM_SHARED_DATA says where)")
    read = Read(path.read_bytes(), "npz")
    with np.load(path, allow_pickle=False) as arrays:
        assert read.labels("y") == [str(label) for label in arrays["y"]]
        if "X" in arrays:
            table = read.data
            stored = np.column_stack([table.columns[f"f{j}"].values for j in range(arrays["X"].shape[1])])
            np.testing.assert_array_equal(stored, arrays["X"])
        else:
            for part in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(read.data.X, part), arrays[part])


def test_the_arrays_of_a_small_file_unpack_to_250_times_its_size_at_most() -> None:
    out = io.BytesIO()
    np.savez_compressed(out, X=np.zeros((1_000_000, 10)), y=np.zeros(1_000_000))
    assert 88e6 / len(out.getvalue()) > 500
    assert refusal(out.getvalue(), "npz").code == "expands_too_much"


def test_what_may_be_unpacked_is_for_all_arrays_together() -> None:
    out = io.BytesIO()
    np.savez_compressed(out, X=np.zeros((250_000, 10)), y=np.zeros(2_000_000))
    assert refusal(out.getvalue(), "npz").code == "expands_too_much", "20 MB and 16 MB, where 32 MiB are free"


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_beside_vectors(order: Any) -> None:
    vectors = np.array([[1, 2.5], [0.5, -3], [0, 0]])
    beside = {
        "age": np.array([20, 30, 40], dtype=">i2"),
        "name": np.array(["anna", "", "häm"]),
        "code": np.array([b"01", b"02", b"03"]),
        "member": np.array([True, False, True]),
        "joined": np.array(["2026-02-01", "2026-03-01", "NaT"], dtype="M8[D]"),
        "weight": np.array([[0.5], [np.nan], [1.5]], dtype=np.float16),
        "image": np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=np.uint8),
        "id": np.array([2**60, 2**60 + 1, 5]),
    }
    read = Read(packed(X=np.asarray(vectors, order=order), y=np.array(["a", "b", "a"]), **beside), "npz", VECTORS)
    assert {name: column["kind"] for name, column in read.columns.items()} == {
        "X": "vector", "age": "number", "name": "category", "code": "category", "member": "category",
        "joined": "date", "weight": "number", "image": "vector", "id": "category", "y": "category",
    }  # fmt: skip
    assert (read.columns["X"]["length"], read.columns["image"]["length"]) == (2, 3)
    assert read.columns["X"]["zero_rows"] == 1
    table = read.table
    assert table["age"] == [20, 30, 40]
    assert table["name"] == ["anna", None, "häm"]
    assert table["code"] == ["01", "02", "03"]
    assert table["member"] == ["true", "false", "true"]
    assert table["weight"] == [0.5, None, 1.5]
    assert table["id"][0] == str(2**60)
    assert np.frombuffer(b"".join(table["X"]), dtype="<f4").reshape(3, 2).tolist() == vectors.tolist()
    assert read.labels("y") == ["a", "b", "a"]
    assert not any("not used" in warning for warning in read.warnings)


def test_what_is_no_column_beside_vectors() -> None:
    others = {
        "feature_names": np.array(["a", "b"]),  # as many as there are columns
        "objects": np.array([{}, [], None], dtype=object),
        "scalar": np.array(3),
        "cube": np.zeros((3, 2, 2)),
        "none": np.zeros((3, 0)),
        "complex": np.zeros(3, dtype=complex),
    }
    read = Read(packed(X=np.eye(3), y=Y, **others), "npz", VECTORS)
    assert (list(read.columns), read.columns["X"]["length"]) == (["X", "y"], 3)
    assert read.warnings == ["arrays that are not used: " + ", ".join(sorted(others))]
    # an array that cannot be read, or whose name is none, is no reason to refuse the rest
    good = {"X.npy": npy(np.eye(3)), "y.npy": npy(Y), "../../evil.npy": npy(Y), "a\nb.npy": npy(Y), "bad.npy": b"no"}
    read = Read(zipped(good), "npz", VECTORS)
    assert list(read.columns) == ["X", "../../evil", "y"]
    without = Read(packed(X=np.eye(3), label=np.array(["a", "b", "a"])), "npz", VECTORS)
    assert (without.labels("label"), without.warnings) == (["a", "b", "a"], [])
    # nobody has asked for them: X is a column for each of its numbers, as ever, and it is said how to ask
    plain = Read(packed(X=X, y=Y, split=Y), "npz")
    assert list(plain.columns) == ["f0", "f1", "y"]
    assert plain.warnings == [
        "arrays that are not used: split",
        "'split': with option vectors true, these are columns beside X, which is one column of vectors then",
    ]


def test_vectors_of_an_npz_file_are_finite() -> None:
    refused = refusal(packed(X=X, y=Y, age=Y), "npz", VECTORS)
    assert (refused.code, refused.line, refused.column) == ("bad_value", 2, "X")
    assert refusal(packed(X=np.eye(3), y=Y[:2], age=Y), "npz", VECTORS).code == "malformed"
    assert (
        refusal(packed(X=np.eye(3), y=Y, age=Y), "npz", VECTORS | {"columns": {"X": "category"}}).code == "unsupported"
    )
    assert refusal(packed(X=np.eye(3), y=Y, age=Y), "npz", VECTORS, max_columns=2).code == "too_many_columns"
    assert refusal(packed(X=np.eye(3), y=Y, age=Y), "npz", VECTORS, max_cells=14).code == "too_many_cells"
    bad = np.frombuffer(np.array([0xD800, 65, 66], dtype="<u4").tobytes(), dtype="<U1")
    assert refusal(packed(X=np.eye(3), y=Y, note=bad), "npz", VECTORS).code == "bad_encoding"
    assert refusal(csr(np.eye(3), Y), "npz", VECTORS).code == "bad_option"
    assert refusal(packed(X=np.eye(3), y=Y), "npz", {"vectors": 1}).code == "bad_option"
    assert refusal(packed(X=np.empty((3, 0)), y=Y), "npz", VECTORS).code == "empty"
