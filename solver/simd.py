# mypy: ignore-errors
# Numba gives these functions their types; the checker sees neither its intrinsics nor its unsigned arithmetic.
"""Building blocks for compiled loops: 2**x, popcount, branch-free minimum and maximum, sparse times dense products."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["LANES", "exp2_nonpositive", "exp2_nonpositive_double", "fast_max", "fast_min", "popcount", "sparse_dots"]

CONTRACT = {"contract", "nnan", "ninf", "nsz"}


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


# columns that `sparse_dots` computes at once: four of the widest registers, whose sums stay in them
LANES = 64
_REGISTERS = 4


@intrinsic
def sparse_dots(
    _context: Any, indices: Any, values: Any, begin: Any, end: Any, dense: Any, base: Any, out: Any, place: Any
) -> Any:
    """out[place + t] = sum of values[z] * dense[base + LANES * indices[z] + t] over z = begin … end, for all lanes t.

    All arrays are flat, ``values``, ``dense`` and ``out`` float32, the numbers uint64. LLVM is given whole vectors to
    work on: it does not find out by itself that the sums of a loop over ``z`` could stay in registers.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(ir.FloatType(), LANES // _REGISTERS)
        nothing = ir.Constant(vector, [0.0] * vector.count)

        def data(k: int) -> Any:
            return context.make_array(signature.args[k])(context, builder, args[k]).data

        first, last, start = args[2], args[3], builder.gep(data(4), [args[5]])
        target = builder.bitcast(builder.gep(data(6), [args[7]]), vector.as_pointer())
        indices_at, values_at = data(0), data(1)
        entry = builder.block
        loop, done = builder.append_basic_block("product"), builder.append_basic_block("sums")
        builder.cbranch(builder.icmp_unsigned("<", first, last), loop, done)

        builder.position_at_end(loop)
        z = builder.phi(i64)
        z.add_incoming(first, entry)
        sums = [builder.phi(vector) for _ in range(_REGISTERS)]
        feature = builder.zext(builder.load(builder.gep(indices_at, [z])), i64)
        value = builder.load(builder.gep(values_at, [z]))
        repeated = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(i32, 0))
        repeated = builder.shuffle_vector(repeated, repeated, ir.Constant(ir.VectorType(i32, vector.count), None))
        line = builder.gep(start, [builder.mul(feature, ir.Constant(i64, LANES))])
        line = builder.bitcast(line, vector.as_pointer())
        following = []
        for k, total in enumerate(sums):
            lanes = builder.load(builder.gep(line, [ir.Constant(i64, k)]))
            lanes.align = 4
            product = builder.fmul(repeated, lanes, flags=("contract",))
            following.append(builder.fadd(total, product, flags=("contract",)))
        after = builder.add(z, ir.Constant(i64, 1))
        z.add_incoming(after, loop)
        for total, new in zip(sums, following, strict=True):
            total.add_incoming(nothing, entry)
            total.add_incoming(new, loop)
        builder.cbranch(builder.icmp_unsigned("<", after, last), loop, done)

        builder.position_at_end(done)
        results = [builder.phi(vector) for _ in range(_REGISTERS)]
        for k, result in enumerate(results):
            result.add_incoming(nothing, entry)
            result.add_incoming(following[k], loop)
        for k, result in enumerate(results):
            builder.store(result, builder.gep(target, [ir.Constant(i64, k)])).align = 4
        return context.get_dummy_value()

    return types.void(indices, values, begin, end, dense, base, out, place), generate


# Taylor coefficients ln(2)^k / k!; on [-1/2, 1/2] the remainder is below half a unit in the last place of float32
_P0 = np.float32(1.0)
_P1 = np.float32(0.6931471805599453)
_P2 = np.float32(0.2402265069591007)
_P3 = np.float32(0.05550410866482158)
_P4 = np.float32(0.009618129107628477)
_P5 = np.float32(0.0013333558146428443)
_P6 = np.float32(0.00015403530393381608)
_LOWEST = np.float32(-125.0)
_ZERO = np.float32(0.0)
_MANTISSA_BITS = np.int32(23)


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
_Q = tuple(math.log(2) ** k / math.factorial(k) for k in range(13))
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
