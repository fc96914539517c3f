# mypy: ignore-errors
# Numba gives these functions their types; the checker sees neither its intrinsics nor its unsigned arithmetic.
"""Compiled loops that fill kernel blocks and fold kernel rows into a gradient, a cache-sized tile of columns at a time.

All of them release the GIL and write only to their own range of columns or rows, so callers may split ranges over
threads. Indices are unsigned and arrays flat in the inner loops: signed indices and slices keep LLVM from vectorising.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from solver.kernels.simd import (
    LANES,
    ROWS_AT_ONCE,
    dense_dots,
    exp2_nonpositive,
    exp2_nonpositive_double,
    popcount,
    sparse_dots,
)

# what turns the tile's matrix product into kernel values
PLAIN, EXP2, POLYNOMIAL, TANH = 0, 1, 2, 3

_CONTRACT: Final = {"contract", "nnan", "ninf", "nsz", "arcp"}
_0 = np.uint64(0)
_TILE = np.uint64(64)
_1 = np.uint64(1)
_2 = np.uint64(2)
_3 = np.uint64(3)
_4 = np.uint64(4)


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def _transform(values: Any, form: int, degree: int) -> None:
    """Apply the kernel's function to a flat float32 array of products, in place."""
    n = np.uint64(values.size)
    if form == EXP2:
        for t in range(_0, n):
            values[t] = exp2_nonpositive(values[t])
    elif form == TANH:
        for t in range(_0, n):
            values[t] = np.float32(np.tanh(values[t]))
    elif form == POLYNOMIAL:
        for t in range(_0, n):
            x = values[t]
            power = x
            for _ in range(degree - 1):
                power *= x
            values[t] = power


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def _fold(
    tile: Any, width: Any, origin: Any, first: Any, last: Any, coef: Any, F: Any, s: Any, exponential: bool
) -> None:
    """F[s:s+width] += coef[first:last] · rows first … last, four rows a pass; the tile begins with row `origin`."""
    r = first
    while r + _4 <= last:
        c0, c1, c2, c3 = coef[r], coef[r + _1], coef[r + _2], coef[r + _3]
        b0 = (r - origin) * width
        b1 = b0 + width
        b2 = b1 + width
        b3 = b2 + width
        if exponential:
            for t in range(_0, width):
                x0 = exp2_nonpositive(tile[b0 + t])
                x1 = exp2_nonpositive(tile[b1 + t])
                x2 = exp2_nonpositive(tile[b2 + t])
                x3 = exp2_nonpositive(tile[b3 + t])
                F[s + t] += np.float64((c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3))
        else:
            for t in range(_0, width):
                F[s + t] += np.float64(
                    (c0 * tile[b0 + t] + c1 * tile[b1 + t]) + (c2 * tile[b2 + t] + c3 * tile[b3 + t])
                )
        r += _4
    while r < last:
        c0 = coef[r]
        b0 = (r - origin) * width
        if exponential:
            for t in range(_0, width):
                F[s + t] += np.float64(c0 * exp2_nonpositive(tile[b0 + t]))
        else:
            for t in range(_0, width):
                F[s + t] += np.float64(c0 * tile[b0 + t])
        r += _1


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def _fold_stored(
    tile: Any, width: Any, origin: Any, first: Any, last: Any, coef: Any, F: Any, s: Any, exponential: bool,
    starts: Any, cache: Any,
) -> None:  # fmt: skip
    """As `_fold`, and write the kernel values to `cache[starts[r] + s …]`."""
    r = first
    while r + _4 <= last:
        c0, c1, c2, c3 = coef[r], coef[r + _1], coef[r + _2], coef[r + _3]
        b0 = (r - origin) * width
        b1 = b0 + width
        b2 = b1 + width
        b3 = b2 + width
        o0, o1, o2, o3 = starts[r] + s, starts[r + _1] + s, starts[r + _2] + s, starts[r + _3] + s
        if exponential:
            for t in range(_0, width):
                x0 = exp2_nonpositive(tile[b0 + t])
                x1 = exp2_nonpositive(tile[b1 + t])
                x2 = exp2_nonpositive(tile[b2 + t])
                x3 = exp2_nonpositive(tile[b3 + t])
                cache[o0 + t] = x0
                cache[o1 + t] = x1
                cache[o2 + t] = x2
                cache[o3 + t] = x3
                F[s + t] += np.float64((c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3))
        else:
            for t in range(_0, width):
                x0, x1, x2, x3 = tile[b0 + t], tile[b1 + t], tile[b2 + t], tile[b3 + t]
                cache[o0 + t] = x0
                cache[o1 + t] = x1
                cache[o2 + t] = x2
                cache[o3 + t] = x3
                F[s + t] += np.float64((c0 * x0 + c1 * x1) + (c2 * x2 + c3 * x3))
        r += _4
    while r < last:
        c0 = coef[r]
        b0 = (r - origin) * width
        o0 = starts[r] + s
        for t in range(_0, width):
            x0 = tile[b0 + t]
            if exponential:
                x0 = exp2_nonpositive(x0)
            cache[o0 + t] = x0
            F[s + t] += np.float64(c0 * x0)
        r += _1


@njit(cache=True, nogil=True)
def _finish_tile(
    tile: Any, rows: Any, width: Any, coef: Any, F: Any, s: Any, form: int, degree: int,
    stored: Any, starts: Any, cache: Any,
) -> None:  # fmt: skip
    if form != EXP2:
        _transform(tile[: rows * width], form, degree)
    _fold_stored(tile, width, _0, _0, stored, coef, F, s, form == EXP2, starts, cache)
    _fold(tile, width, _0, stored, rows, coef, F, s, form == EXP2)


_LANES: Final = np.uint64(LANES)
_ROWS_AT_ONCE: Final = np.uint64(ROWS_AT_ONCE)


@njit(cache=True, nogil=True)
def dense_rows(
    W: Any, samples: int, row_terms: Any, dense: Any, column_terms: Any, coef: Any, F: Any, begin: int, end: int,
    form: int, degree: int, stored: int, starts: Any, cache: Any, tile_width: int, tile: Any,
) -> None:  # fmt: skip
    """Compute kernel rows of dense samples over columns begin … end and add `coef · rows` to F.

    Parameters
    ----------
    W : (k, d) float32
        The rows' side of the product, padded to a multiple of `ROWS_AT_ONCE`.
    samples : int
        Rows without padding.
    row_terms, column_terms : float32
        Added to the products of each row and column; also padded, the latter to a multiple of `LANES`.
    dense : (tiles, d, LANES) float32
        The columns, as `lay_out` does it.
    coef : (samples,) float32
    F : (n,) float64, updated
    begin, end : int
        `begin` is a multiple of `LANES`, or the tile is computed from one on.
    form, degree : int
        Function that turns a product into a kernel value.
    stored : int
        So many of the rows, the first ones, are written to the cache.
    starts : (stored,) uint64
        Where their column 0 lies in the cache.
    cache : flat float32
    tile_width : int
        Columns of a tile, a multiple of `LANES`.
    tile : flat float32
        Work space of at least `ROWS_AT_ONCE * tile_width`.
    """
    d = np.uint64(W.shape[1])
    rows, columns = W.reshape(-1), dense.reshape(-1)
    k, kept = np.uint64(samples), np.uint64(stored)
    s = begin
    while s < end:
        first = s // LANES
        e = min(end, first * LANES + tile_width)
        last = (e + LANES - 1) // LANES
        stride = np.uint64(last - first) * _LANES
        width, at = np.uint64(e - s), np.uint64(s)
        for r in range(_0, k, _ROWS_AT_ONCE):
            for b in range(first, last):
                column, o = np.uint64(b) * _LANES, np.uint64(b - first) * _LANES
                dense_dots(rows, r, d, row_terms, columns, column * d, column_terms, column, tile, o, stride)
            _narrow(tile, _ROWS_AT_ONCE, stride, np.uint64(s - first * LANES), width)
            if form != EXP2:
                _transform(tile[: _ROWS_AT_ONCE * width], form, degree)
            rest = min(k, r + _ROWS_AT_ONCE)
            middle = max(r, min(rest, kept))
            _fold_stored(tile, width, r, r, middle, coef, F, at, form == EXP2, starts, cache)
            _fold(tile, width, r, middle, rest, coef, F, at, form == EXP2)
        s = e


@njit(cache=True, nogil=True)
def _narrow(tile: Any, k: Any, stride: Any, offset: Any, width: Any) -> None:
    """Move the parts `[offset, offset + width)` of k rows of `stride` together."""
    if stride != width:
        for r in range(_0, k):
            for t in range(_0, width):
                tile[r * width + t] = tile[r * stride + offset + t]


@njit(cache=True, nogil=True)
def dense_block(
    W: Any, row_terms: Any, X: Any, column_terms: Any, block: Any, begin: int, end: int, symmetric: bool, form: int,
    degree: int, tile: Any,
) -> None:  # fmt: skip
    """Fill columns of the (q, q) kernel block of some samples, tiles begin … end of them.

    Parameters
    ----------
    W, row_terms, column_terms
        As of `dense_rows`.
    X : (at least q, d) float32
        The columns' side.
    symmetric : bool
        Compute from the diagonal down and mirror that, which costs less than products of many features.
    tile : flat float32
        Work space of at least `(len(W) + d) * LANES`.
    """
    k, d, q = np.uint64(W.shape[0]), np.uint64(W.shape[1]), np.uint64(block.shape[0])
    rows, features, out = W.reshape(-1), X.reshape(-1), block.reshape(-1)
    columns, values = tile[: d * _LANES], tile[d * _LANES :]
    for b in range(np.uint64(begin), np.uint64(end)):
        first = b * _LANES
        width = min(_LANES, q - first)
        if width < _LANES:
            columns[:] = 0
        for t in range(_0, width):
            o = (first + t) * d
            for j in range(_0, d):
                columns[j * _LANES + t] = features[o + j]
        top = first if symmetric else _0
        for r in range(top, k, _ROWS_AT_ONCE):
            dense_dots(rows, r, d, row_terms, columns, _0, column_terms, first, values, (r - top) * _LANES, _LANES)
        _transform(values[: (q - top) * _LANES], form, degree)
        _place(values, out, q, top, first, width, symmetric)


@njit(cache=True, nogil=True)
def _place(values: Any, flat: Any, q: Any, top: Any, first: Any, width: Any, symmetric: bool) -> None:
    """Write columns first … first + width, given from row `top` on, into a (q, q) matrix, and mirror them."""
    for r in range(top, q):
        a, o = (r - top) * _LANES, r * q + first
        for t in range(_0, width):
            flat[o + t] = values[a + t]
    if symmetric:
        for t in range(_0, width):
            o = (first + t) * q
            for r in range(first + width, q):
                flat[o + r] = values[(r - top) * _LANES + t]


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def _sparse_products(
    Wt: Any, lookup: Any, k: Any, indptr: Any, indices: Any, data: Any, rows: Any, s: int, e: int, tile: Any, line: Any
) -> None:
    """tile[r, t] = W_r · x for the CSR rows `rows[s:e]`.

    Wt is (some features, k) flat; `lookup` gives each feature's line in it, 0 for features that no W_r has.
    """
    width = np.uint64(e - s)
    for t in range(s, e):
        for r in range(_0, k):
            line[r] = np.float32(0)
        row = rows[t]
        for z in range(indptr[row], indptr[row + 1]):
            place = lookup[indices[z]]
            if place == 0:
                continue
            value = data[z]
            o = np.uint64(place) * k
            for r in range(_0, k):
                line[r] += value * Wt[o + r]
        column = np.uint64(t - s)
        for r in range(_0, k):
            tile[r * width + column] = line[r]


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def _add_ends(tile: Any, k: Any, width: Any, row_terms: Any, column_terms: Any, s: int) -> None:
    for r in range(_0, k):
        a = row_terms[r]
        o = r * width
        for t in range(_0, width):
            tile[o + t] += a + column_terms[np.uint64(s) + t]


@njit(cache=True, nogil=True)
def sparse_rows(
    Wt: Any, lookup: Any, k: int, indptr: Any, indices: Any, data: Any, rows: Any, row_terms: Any, column_terms: Any,
    coef: Any, F: Any, begin: int, end: int, form: int, degree: int, stored: int, starts: Any, cache: Any,
    tile_width: int, tile: Any,
) -> None:  # fmt: skip
    """As `dense_rows` for columns that are the CSR rows `rows[begin:end]`.

    `Wt` and `lookup` hold the scaled rows by feature (see `_sparse_products`); `row_terms` and
    `column_terms` are added to the products (squared norms for the exponential).
    """
    uk = np.uint64(k)
    line = np.empty(k, np.float32)
    for s in range(begin, end, tile_width):
        e = min(end, s + tile_width)
        width = np.uint64(e - s)
        _sparse_products(Wt, lookup, uk, indptr, indices, data, rows, s, e, tile, line)
        _add_ends(tile, uk, width, row_terms, column_terms, s)
        _finish_tile(tile, uk, width, coef, F, np.uint64(s), form, degree, np.uint64(stored), starts, cache)


@njit(cache=True, nogil=True)
def list_by_feature(indptr: Any, indices: Any, data: Any, rows: Any, begins: Any, places: Any, values: Any) -> None:
    """Turn some CSR rows into lists of who has a feature: places in `rows`, ascending, and values.

    `begins` of (features + 1,) is zeroed on entry and tells on return where each list begins.
    """
    for r in rows:
        for z in range(indptr[r], indptr[r + 1]):
            begins[indices[z]] += 1
    total = 0
    for f in range(begins.size):
        count = begins[f]
        begins[f] = total
        total += count
    # the lists are filled, which moves each begin to its list's end, that is to the next one's begin
    for i in range(rows.size):
        for z in range(indptr[rows[i]], indptr[rows[i] + 1]):
            e = begins[indices[z]]
            places[e] = i
            values[e] = data[z]
            begins[indices[z]] = e + 1
    for f in range(begins.size - 1, 0, -1):
        begins[f] = begins[f - 1]
    begins[0] = 0


_ROWS_MIRRORED: Final = 16


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def sparse_block(
    indptr: Any, indices: Any, data: Any, rows: Any, begins: Any, places: Any, values: Any, factor: Any, row_terms: Any,
    column_terms: Any, block: Any, begin: int, end: int, form: int, degree: int,
) -> None:  # fmt: skip
    """Fill rows begin … end of a symmetric kernel block up to its diagonal, and the columns that mirror them.

    Work is done only where two rows have a feature in common.

    Parameters
    ----------
    begins, places, values
        The rows by feature, from `list_by_feature`.
    factor, row_terms, column_terms : float32
        `factor · products + row_terms + column_terms` is what the form is applied to.
    """
    q = np.uint64(rows.size)
    out = block.reshape(-1)
    for first in range(begin, end, _ROWS_MIRRORED):
        last = min(end, first + _ROWS_MIRRORED)
        for i in range(first, last):
            o, length = np.uint64(i) * q, np.uint64(i + 1)
            for t in range(_0, length):
                out[o + t] = np.float32(0)
            for z in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
                value, feature = data[z], np.uint64(indices[z])
                for e in range(np.uint64(begins[feature]), np.uint64(begins[feature + _1])):
                    place = np.uint64(places[e])
                    if place >= length:
                        break
                    out[o + place] += value * values[e]
            own = row_terms[i]
            for t in range(_0, length):
                out[o + t] = factor * out[o + t] + (own + column_terms[t])
            _transform(out[o : o + length], form, degree)
        for t in range(_0, np.uint64(last)):
            for r in range(max(first, int(t)), last):
                out[t * q + np.uint64(r)] = out[np.uint64(r) * q + t]


@njit(cache=True, nogil=True)
def add_sparse_rows(indptr: Any, indices: Any, data: Any, rows: Any, coefficients: Any, w: Any) -> None:
    """`w += Σ_j coefficients_j x_j` in float64 over some CSR rows."""
    for i in range(rows.size):
        for z in range(indptr[rows[i]], indptr[rows[i] + 1]):
            w[indices[z]] += coefficients[i] * data[z]


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def add_sparse_scores(indptr: Any, indices: Any, data: Any, rows: Any, w: Any, F: Any, begin: int, end: int) -> None:
    """`F[t] += w · x` in float64 for the CSR rows `rows[begin:end]`."""
    for t in range(begin, end):
        # four sums, so that additions need not wait for each other; unsigned indices spare a check
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        z, end_of_row = np.uint64(indptr[rows[t]]), np.uint64(indptr[rows[t] + 1])
        while z + _4 <= end_of_row:
            a += w[np.uint64(indices[z])] * data[z]
            b += w[np.uint64(indices[z + _1])] * data[z + _1]
            c += w[np.uint64(indices[z + _2])] * data[z + _2]
            d += w[np.uint64(indices[z + _3])] * data[z + _3]
            z += _4
        while z < end_of_row:
            a += w[np.uint64(indices[z])] * data[z]
            z += _1
        F[t] += (a + b) + (c + d)


@njit(cache=True, nogil=True)
def look_at_features(X: Any, begin: int, end: int, differs: Any, filled: Any) -> None:
    """Note which features are not the same in rows begin … end as in row 0, and how many of each row are not 0."""
    for i in range(begin, end):
        count = 0
        for j in range(X.shape[1]):
            if X[i, j] != 0:
                count += 1
            if X[i, j] != X[0, j]:
                differs[j] = 1
        filled[i] = count


@njit(cache=True, nogil=True)
def nonzeros_of(
    X: Any, used: Any, begin: int, end: int, per_part: int, bounds: Any, indices: Any, values: Any, squares: Any
) -> None:
    """Write what rows begin … end hold besides 0 in the features `used`, and their squared norms in float64.

    Row i goes to `indices[bounds[i, 0]:]` and `values[bounds[i, 0]:]`; `bounds[i, c]` becomes the end of what it
    has in the first c times `per_part` features.
    """
    for i in range(begin, end):
        z = bounds[i, 0]
        total = 0.0
        for j in range(used.size):
            x = X[i, used[j]]
            if x != 0:
                indices[z] = j
                values[z] = x
                total += np.float64(x) * np.float64(x)
                z += 1
            if j % per_part == per_part - 1:
                bounds[i, j // per_part + 1] = z
        bounds[i, -1] = z
        squares[i] = total


@njit(cache=True, nogil=True)
def spread(bounds: Any, indices: Any, values: Any, samples: Any, first: int, dense: Any) -> None:
    """Lay samples out by feature, `LANES` side by side: as columns first, first + 1, … of a zeroed array."""
    d = np.uint64(dense.shape[1])
    flat = dense.reshape(-1)
    for i in range(samples.size):
        column = np.uint64(first + i)
        place = (column // _LANES * d) * _LANES + column % _LANES
        for z in range(bounds[samples[i], 0], bounds[samples[i], -1]):
            flat[place + np.uint64(indices[z]) * _LANES] = values[z]


@njit(cache=True, nogil=True)
def lay_out(X: Any, samples: Any, used: Any, centre: Any, first: int, dense: Any) -> None:
    """As `spread` for `X[samples, used] - centre[used]`."""
    d = np.uint64(dense.shape[1])
    flat = dense.reshape(-1)
    for i in range(samples.size):
        row, column = samples[i], np.uint64(first + i)
        place = (column // _LANES * d) * _LANES + column % _LANES
        for j in range(used.size):
            flat[place + np.uint64(j) * _LANES] = X[row, used[j]] - centre[used[j]]


@njit(cache=True, nogil=True)
def take_out(dense: Any, columns: Any, out: Any) -> None:
    """Copy some of the columns that `lay_out` or `spread` laid out into the rows of `out`."""
    d = np.uint64(dense.shape[1])
    flat = dense.reshape(-1)
    for i in range(columns.size):
        column = np.uint64(columns[i])
        place = (column // _LANES * d) * _LANES + column % _LANES
        for j in range(_0, d):
            out[i, j] = flat[place + j * _LANES]


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def _finish_products(
    tile: Any, k: Any, stride: Any, offset: Any, width: Any, factor: Any, row_terms: Any, column_terms: Any, first: Any
) -> None:
    """tile[r, t] = factor · tile[r, offset + t] + terms, with rows of `stride` before and of `width` after."""
    for r in range(_0, k):
        own, o = row_terms[r], r * width
        if stride == width:
            for t in range(_0, width):
                tile[o + t] = factor * tile[o + t] + (own + column_terms[first + t])
        else:
            a = r * stride + offset
            for t in range(_0, width):
                tile[o + t] = factor * tile[a + t] + (own + column_terms[first + t])


@njit(cache=True, nogil=True)
def mostly_zero_rows(
    bounds: Any, indices: Any, values: Any, samples: Any, factor: Any, row_terms: Any, dense: Any, column_terms: Any,
    coef: Any, F: Any, begin: int, end: int, form: int, degree: int, stored: int, starts: Any, cache: Any,
    tile_width: int, tile: Any,
) -> None:  # fmt: skip
    """As `dense_rows` for rows of which only what is not 0 is given.

    Parameters
    ----------
    bounds : int64
        Where each part of each sample begins and ends in `indices` and `values`.
    samples : (k,) int64
        The rows.
    factor, row_terms, column_terms : float32
        `factor · products + row_terms + column_terms` is what the form is applied to.
    dense : (tiles, features, LANES) float32
        The columns, as `spread` lays them out.
    tile_width : int
        A multiple of `LANES`.
    tile : flat float32
        Work space of at least `k * tile_width`.
    """
    k = samples.size
    flat = dense.reshape(-1)
    lines = np.uint64(dense.shape[1]) * _LANES
    s = begin
    while s < end:
        first = s // LANES
        e = min(end, first * LANES + tile_width)
        last = (e + LANES - 1) // LANES
        stride = np.uint64(last - first) * _LANES
        tile[: np.uint64(k) * stride] = 0
        for b in range(first, last):
            _add_sparse_dots(
                bounds,
                indices,
                values,
                samples,
                flat,
                np.uint64(b) * lines,
                tile,
                np.uint64(b - first) * _LANES,
                stride,
            )
        width = np.uint64(e - s)
        _finish_products(
            tile, np.uint64(k), stride, np.uint64(s - first * LANES), width, factor, row_terms, column_terms,
            np.uint64(s),
        )  # fmt: skip
        _finish_tile(tile, np.uint64(k), width, coef, F, np.uint64(s), form, degree, np.uint64(stored), starts, cache)
        s = e


@njit(cache=True, nogil=True)
def _add_sparse_dots(
    bounds: Any, indices: Any, values: Any, samples: Any, flat: Any, base: Any, tile: Any, place: Any, stride: Any
) -> None:
    """Add the products of some rows with `LANES` columns to a tile; by parts of the features, which stay in cache."""
    for c in range(bounds.shape[1] - 1):
        for r in range(samples.size):
            row = samples[r]
            sparse_dots(
                indices, values, np.uint64(bounds[row, c]), np.uint64(bounds[row, c + 1]), flat, base, tile,
                np.uint64(r) * stride + place,
            )  # fmt: skip


@njit(cache=True, nogil=True)
def mostly_zero_block(
    bounds: Any, indices: Any, values: Any, samples: Any, factor: Any, terms: Any, column_terms: Any, block: Any,
    begin: int, form: int, degree: int, dense: Any, products: Any,
) -> None:  # fmt: skip
    """Fill the columns from `begin` on, at most `LANES`, of a symmetric kernel block, and mirror them.

    Only from the diagonal down. `dense` of (1, features, LANES) and `products` of at least `q * LANES` are work
    space.
    """
    dense[:] = 0
    end = min(samples.size, begin + LANES)
    spread(bounds, indices, values, samples[begin:end], 0, dense)
    first, q = np.uint64(begin), np.uint64(samples.size)
    rows = q - first
    out = products[: rows * _LANES]
    out[:] = 0
    _add_sparse_dots(bounds, indices, values, samples[begin:], dense.reshape(-1), _0, out, _0, _LANES)
    _finish_products(out, rows, _LANES, _0, _LANES, factor, terms[begin:], column_terms, first)
    _transform(out, form, degree)
    _place(out, block.reshape(-1), q, first, first, min(_LANES, rows), True)


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def binary_rows(
    W: Any, ones: Any, B: Any, column_ones: Any, scale: float, coef: Any, F: Any, begin: int, end: int, stored: int,
    starts: Any, cache: Any, tile_width: int, tile: Any,
) -> None:  # fmt: skip
    """As `dense_rows` for 0/1 features packed in words and the exponential kernel `2^(-scale |x-w|²)`.

    Parameters
    ----------
    W : (k, words) uint64
    ones, column_ones : float32
        Number of ones of the rows and of the columns.
    B : (words, n) uint64
        Packed columns, word by word.
    """
    k = W.shape[0]
    words = np.uint64(W.shape[1])
    n = np.uint64(B.shape[1])
    flat = B.reshape(-1)
    twice = np.float32(2.0 * scale)
    once = np.float32(-scale)
    for s in range(begin, end, tile_width):
        e = min(end, s + tile_width)
        width = np.uint64(e - s)
        first = np.uint64(s)
        for r in range(k):
            o = np.uint64(r) * width
            base = ones[r] * once
            if words == _2:
                w0, w1 = W[r, 0], W[r, 1]
                for t in range(_0, width):
                    common = popcount(w0 & flat[first + t]) + popcount(w1 & flat[n + first + t])
                    tile[o + t] = np.float32(common) * twice + (base + once * column_ones[first + t])
            else:
                for t in range(_0, width):
                    common = _0
                    for z in range(_0, words):
                        common += popcount(W[r, z] & flat[z * n + first + t])
                    tile[o + t] = np.float32(common) * twice + (base + once * column_ones[first + t])
        _finish_tile(tile, np.uint64(k), width, coef, F, first, EXP2, 1, np.uint64(stored), starts, cache)


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def binary_block(W: Any, Wt: Any, ones: Any, scale: float, block: Any, begin: int, end: int) -> None:
    """Fill rows begin … end of the (q, q) block of packed 0/1 samples; Wt is W transposed."""
    q = np.uint64(W.shape[0])
    words = np.uint64(W.shape[1])
    flat = Wt.reshape(-1)
    out = block.reshape(-1)
    twice = np.float32(2.0 * scale)
    once = np.float32(-scale)
    for r in range(begin, end):
        o = np.uint64(r) * q
        base = ones[r] * once
        if words == _2:
            w0, w1 = W[r, 0], W[r, 1]
            for t in range(_0, q):
                common = popcount(w0 & flat[t]) + popcount(w1 & flat[q + t])
                out[o + t] = exp2_nonpositive(np.float32(common) * twice + (base + once * ones[t]))
        else:
            for t in range(_0, q):
                common = _0
                for z in range(_0, words):
                    common += popcount(W[r, z] & flat[z * q + t])
                out[o + t] = exp2_nonpositive(np.float32(common) * twice + (base + once * ones[t]))


@njit(cache=True, fastmath={"contract", "nnan", "ninf", "nsz", "arcp", "reassoc"}, nogil=True)
def _fold_eight(c: Any, o: Any, cache: Any, F: Any, s: Any, width: Any) -> None:
    c0, c1, c2, c3, c4, c5, c6, c7 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
    o0, o1, o2, o3 = o[0] + s, o[1] + s, o[2] + s, o[3] + s
    o4, o5, o6, o7 = o[4] + s, o[5] + s, o[6] + s, o[7] + s
    for t in range(_0, width):
        F[s + t] += np.float64(
            ((c0 * cache[o0 + t] + c1 * cache[o1 + t]) + (c2 * cache[o2 + t] + c3 * cache[o3 + t]))
            + ((c4 * cache[o4 + t] + c5 * cache[o5 + t]) + (c6 * cache[o6 + t] + c7 * cache[o7 + t]))
        )


@njit(cache=True, nogil=True)
def accumulate_cached(starts: Any, coef: Any, cache: Any, F: Any, begin: int, end: int) -> None:
    """F[begin:end] += coef · cached rows, eight rows a pass.

    Parameters
    ----------
    starts : (k,) uint64
        Where column 0 of each row lies in the cache.
    coef : (k,) of the cache's type
    cache : flat float32 or float64
    """
    c = np.zeros(8, cache.dtype)
    o = np.zeros(8, np.uint64)
    for s in range(begin, end, 4096):
        e = min(end, s + 4096)
        for i in range(0, starts.size, 8):
            for j in range(8):
                if i + j < starts.size:
                    c[j] = coef[i + j]
                    o[j] = starts[i + j]
                else:
                    c[j] = 0
                    o[j] = starts[i]
            _fold_eight(c, o, cache, F, np.uint64(s), np.uint64(e - s))


@njit(cache=True, nogil=True)
def gather_rows(cache: Any, starts: Any, columns: Any, places: Any, rows: Any, out: Any, begin: int, end: int) -> None:
    """out[rows[i], places] = the cached row at starts[i], at `columns`, for i = begin … end.

    Columns (uint64) that ascend are read twice as fast as others.
    """
    q = np.uint64(columns.size)
    flat = out.reshape(-1)
    for i in range(begin, end):
        o = np.uint64(rows[i]) * np.uint64(out.shape[1])
        start = starts[i]
        for j in range(_0, q):
            flat[o + places[j]] = cache[start + columns[j]]


@njit(cache=True, nogil=True)
def count_not_below(values: Any, limit: float) -> int:
    """Count the flat values whose magnitude is not below a limit; NaN counts."""
    n = np.uint64(values.size)
    bad = 0
    for t in range(_0, n):
        bad += not (abs(values[t]) < limit)
    return bad


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def exact_sums(dots: Any, a: Any, b: Any, scale: float, coefficients: Any, sums: Any) -> None:
    """Sums += coefficients · 2^(-scale |x-w|²) in float64, from inner products and squared norms.

    Parameters
    ----------
    dots : (k, m) float64, C-contiguous
    a, b : (k,) and (m,) float64
        Squared norms of the rows and of the columns.
    """
    k, m = np.uint64(dots.shape[0]), np.uint64(dots.shape[1])
    flat = dots.reshape(-1)
    for r in range(_0, k):
        c, own, o = coefficients[r], a[r], r * m
        for t in range(_0, m):
            sums[t] += c * exp2_nonpositive_double(scale * ((2.0 * flat[o + t] - own) - b[t]))


@njit(cache=True, fastmath={"contract", "reassoc", "nsz"}, nogil=True)
def centred_squares(X: Any, samples: Any, centre: Any, out: Any) -> None:
    """out[i] = |X[samples[i]] - centre|² in float64."""
    for i in range(samples.size):
        row = samples[i]
        total = 0.0
        for j in range(X.shape[1]):
            x = X[row, j] - centre[j]
            total += x * x
        out[i] = total


@njit(cache=True, fastmath=_CONTRACT, nogil=True)
def mirrored_gaussians(K: Any, begin: int, end: int, squares: Any, scale: float) -> None:
    """Turn inner products into 2^(-scale |x-w|²) in float64, in place, and copy them to the other side of the diagonal.

    Parameters
    ----------
    K : (n, n) float64, C-contiguous
        Rows `begin` to before `end` hold inner products from column `begin` on.
    squares : (n,) float64
        Squared norms.
    """
    n, first, last = np.uint64(K.shape[0]), np.uint64(begin), np.uint64(end)
    flat = K.reshape(-1)
    for left in range(first, n, _TILE):
        right = left + _TILE
        if right > n:
            right = n
        for r in range(first, last):
            own, o = squares[r], r * n
            for t in range(left, right):
                flat[o + t] = exp2_nonpositive_double(scale * ((2.0 * flat[o + t] - own) - squares[t]))
        for t in range(max(left, last), right):
            o = t * n
            for r in range(first, last):
                flat[o + r] = flat[r * n + t]
    for r in range(first, last):
        flat[r * n + r] = 1.0
