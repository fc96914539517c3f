# mypy: ignore-errors
# Numba gives these functions their types; the checker sees neither its intrinsics nor its unsigned arithmetic.
"""Building blocks for compiled loops: 2**x, popcount, branch-free minimum and maximum, sparse times dense products."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.extending import intrinsic

CONTRACT: Final = {"contract", "nnan", "ninf", "nsz"}


@intrinsic
def _round_float32(_context: Any, _x: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.rint", [ir.FloatType()])
        return builder.call(function, args)

    return types.float32(types.float32), generate


@intrinsic
def _float_to_int(_context: Any, _x: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.fptosi(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _bits_to_float(_context: Any, _x: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def _float_to_bits(_context: Any, _x: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _round_float64(_context: Any, _x: Any) -> Any:
    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.rint", [ir.DoubleType()])
        return builder.call(function, args)

    return types.float64(types.float64), generate


@intrinsic
def _power_of_two(_context: Any, _x: Any) -> Any:
    """2**x in float64 for a whole x from -1022 to 0, by its bits."""

    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        exponent = builder.add(builder.fptosi(args[0], i64), ir.Constant(i64, 1023))
        return builder.bitcast(builder.shl(exponent, ir.Constant(i64, 52)), ir.DoubleType())

    return types.float64(types.float64), generate


@intrinsic
def popcount(_context: Any, _x: Any) -> Any:
    """Count the one bits of a uint64."""

    def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.ctpop", [ir.IntType(64)])
        return builder.call(function, args)

    return types.uint64(types.uint64), generate


def _select(comparison: str) -> Any:
    def typed(_context: Any, a: Any, _b: Any) -> Any:
        def generate(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
            # Numba's own max/min propagate NaN, which keeps LLVM from vectorising the loop
            chosen = builder.fcmp_ordered(comparison, args[0], args[1], flags=("fast",))
            return builder.select(chosen, args[0], args[1], flags=("fast",))

        return a(a, a), generate

    return typed


@intrinsic
def fast_max(context: Any, a: Any, b: Any) -> Any:
    """Larger of two floats of one type, NaN not considered."""
    return _select(">")(context, a, b)


@intrinsic
def fast_min(context: Any, a: Any, b: Any) -> Any:
    """Smaller of two floats of one type, NaN not considered."""
    return _select("<")(context, a, b)


# columns that lie side by side, feature by feature: four of the widest registers
LANES: Final = 64
_VECTORS: Final = 4
_WIDTH: Final = LANES // _VECTORS

# rows of a dense product that are computed at once
ROWS_AT_ONCE: Final = 4

# so many vectors of each of these rows have their sums in registers: all where there are 32 registers of 512 bits
_VECTORS_AT_ONCE: Final = _VECTORS if get_host_cpu_features().get("avx512f") else 1


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


def _lanes(builder: Any, pointer: Any, offset: Any, k: int) -> Any:
    """Address of the k-th vector of what begins at `pointer[offset]`."""
    at = builder.gep(pointer, [builder.add(offset, ir.Constant(ir.IntType(64), k * _WIDTH))])
    return builder.bitcast(at, ir.VectorType(ir.FloatType(), _WIDTH).as_pointer())


def _load(builder: Any, pointer: Any, offset: Any, k: int) -> Any:
    vector = builder.load(_lanes(builder, pointer, offset, k))
    vector.align = 4
    return vector


def _repeat(builder: Any, value: Any) -> Any:
    vector = ir.VectorType(ir.FloatType(), _WIDTH)
    i32 = ir.IntType(32)
    repeated = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(i32, 0))
    return builder.shuffle_vector(repeated, repeated, ir.Constant(ir.VectorType(i32, _WIDTH), None))


def _sum_products(builder: Any, first: Any, last: Any, sums: list[Any], products: Any) -> list[Any]:
    """`sums` plus the products of the pairs of `products(z)` over z = first … last, all in registers."""
    i64 = ir.IntType(64)
    entry = builder.block
    loop, done = builder.append_basic_block("product"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_unsigned("<", first, last), loop, done)
    builder.position_at_end(loop)
    z = builder.phi(i64)
    z.add_incoming(first, entry)
    totals = [builder.phi(start.type) for start in sums]
    following = [
        builder.fadd(total, builder.fmul(a, b, flags=("contract",)), flags=("contract",))
        for total, (a, b) in zip(totals, products(z), strict=True)
    ]
    after = builder.add(z, ir.Constant(i64, 1))
    z.add_incoming(after, loop)
    for total, start, new in zip(totals, sums, following, strict=True):
        total.add_incoming(start, entry)
        total.add_incoming(new, loop)
    builder.cbranch(builder.icmp_unsigned("<", after, last), loop, done)
    builder.position_at_end(done)
    results = [builder.phi(start.type) for start in sums]
    for result, start, new in zip(results, sums, following, strict=True):
        result.add_incoming(start, entry)
        result.add_incoming(new, loop)
    return results


@intrinsic
def sparse_dots(
    _context: Any, indices: Any, values: Any, begin: Any, end: Any, dense: Any, base: Any, out: Any, place: Any
) -> Any:
    """out[place + t] += sum of values[z] * dense[base + LANES * indices[z] + t] over z = begin … end, for all lanes t.

    All arrays are flat, `values`, `dense` and `out` float32, the numbers uint64. LLVM is given whole vectors to
    work on: it does not find out by itself that the sums of a loop over `z` could stay in registers.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        indices_at, values_at, dense_at, out_at = (
            _array(context, builder, signature.args[k], args[k]) for k in (0, 1, 4, 6)
        )
        _, _, begin, end, _, base, _, place = args

        def products(z: Any) -> Any:
            feature = builder.zext(builder.load(builder.gep(indices_at, [z])), i64)
            value = _repeat(builder, builder.load(builder.gep(values_at, [z])))
            line = builder.add(base, builder.mul(feature, ir.Constant(i64, LANES)))
            return [(value, _load(builder, dense_at, line, k)) for k in range(_VECTORS)]

        sums = [_load(builder, out_at, place, k) for k in range(_VECTORS)]
        for k, total in enumerate(_sum_products(builder, begin, end, sums, products)):
            builder.store(total, _lanes(builder, out_at, place, k)).align = 4
        return context.get_dummy_value()

    return types.void(indices, values, begin, end, dense, base, out, place), generate


@intrinsic
def dense_dots(
    _context: Any, rows: Any, first: Any, length: Any, row_terms: Any, dense: Any, base: Any, column_terms: Any,
    column: Any, out: Any, place: Any, stride: Any,
) -> Any:  # fmt: skip
    """out[place + r * stride + t] = products + row_terms[first + r] + column_terms[column + t].

    For all lanes t and the `ROWS_AT_ONCE` rows r from `first` on; products are the sum of
    rows[(first + r) * length + z] * dense[base + LANES * z + t] over z = 0 … length. As for `sparse_dots`.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        rows_at, row_terms_at, dense_at, column_terms_at, out_at = (
            _array(context, builder, signature.args[k], args[k]) for k in (0, 3, 4, 6, 8)
        )
        _, first, length, _, _, base, _, column, _, place, stride = args
        numbers = [builder.add(first, ir.Constant(i64, r)) for r in range(ROWS_AT_ONCE)]
        begins = [builder.mul(number, length) for number in numbers]
        nothing = ir.Constant(ir.VectorType(ir.FloatType(), _WIDTH), [0.0] * _WIDTH)
        for k0 in range(0, _VECTORS, _VECTORS_AT_ONCE):
            vectors = range(k0, k0 + _VECTORS_AT_ONCE)

            def products(z: Any, vectors: range = vectors) -> Any:
                line = builder.add(base, builder.mul(z, ir.Constant(i64, LANES)))
                columns = [_load(builder, dense_at, line, k) for k in vectors]
                for begin in begins:
                    value = _repeat(builder, builder.load(builder.gep(rows_at, [builder.add(begin, z)])))
                    yield from ((value, lanes) for lanes in columns)

            sums = [nothing] * (ROWS_AT_ONCE * len(vectors))
            totals = iter(_sum_products(builder, ir.Constant(i64, 0), length, sums, products))
            for r, number in enumerate(numbers):
                own = _repeat(builder, builder.load(builder.gep(row_terms_at, [number])))
                to = builder.add(place, builder.mul(stride, ir.Constant(i64, r)))
                for k in vectors:
                    ends = builder.fadd(own, _load(builder, column_terms_at, column, k))
                    builder.store(builder.fadd(next(totals), ends), _lanes(builder, out_at, to, k)).align = 4
        return context.get_dummy_value()

    numbers = (first, length, base, column, place, stride)
    if any(number != types.uint64 for number in numbers):
        return None
    return (
        types.void(rows, first, length, row_terms, dense, base, column_terms, column, out, place, stride),
        generate,
    )


# Taylor coefficients ln(2)^k / k!; on [-1/2, 1/2] the remainder is below half a unit in the last place of float32
_P0: Final = np.float32(1.0)
_P1: Final = np.float32(0.6931471805599453)
_P2: Final = np.float32(0.2402265069591007)
_P3: Final = np.float32(0.05550410866482158)
_P4: Final = np.float32(0.009618129107628477)
_P5: Final = np.float32(0.0013333558146428443)
_P6: Final = np.float32(0.00015403530393381608)
_LOWEST: Final = np.float32(-125.0)
_ZERO: Final = np.float32(0.0)
_MANTISSA_BITS: Final = np.int32(23)


@njit(inline="always", fastmath=CONTRACT)
def exp2_nonpositive(x: Any) -> Any:
    """2**x in float32 for x <= 0 (larger x counts as 0), relative error 2.2e-7, at least 2**-125."""
    if x < _LOWEST:
        x = _LOWEST
    if x > _ZERO:
        x = _ZERO
    whole = _round_float32(x)
    f = x - whole
    p = _P6
    p = p * f + _P5
    p = p * f + _P4
    p = p * f + _P3
    p = p * f + _P2
    p = p * f + _P1
    p = p * f + _P0
    return _bits_to_float(np.int32(_float_to_bits(p) + np.int32(_float_to_int(whole) << _MANTISSA_BITS)))


# the same series for float64, ln(2)^k / k! up to k = 12: the remainder is 2e-16
_Q: Final = tuple(math.log(2) ** k / math.factorial(k) for k in range(13))
_Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7, _Q8, _Q9, _Q10, _Q11, _Q12 = _Q


@njit(inline="always", fastmath=CONTRACT)
def exp2_nonpositive_double(x: Any) -> Any:
    """2**x in float64 for x <= 0 (larger x counts as 0), relative error 4e-16, at least 2**-1022."""
    x = fast_min(fast_max(x, -1022.0), 0.0)
    whole = _round_float64(x)
    f = x - whole
    p = _Q12 * f + _Q11
    p = p * f + _Q10
    p = p * f + _Q9
    p = p * f + _Q8
    p = p * f + _Q7
    p = p * f + _Q6
    p = p * f + _Q5
    p = p * f + _Q4
    p = p * f + _Q3
    p = p * f + _Q2
    p = p * f + _Q1
    p = p * f + _Q0
    return p * _power_of_two(whole)
