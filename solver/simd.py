# mypy: ignore-errors
# Numba gives these functions their types; the checker sees neither its intrinsics nor its unsigned arithmetic.
"""Scalar building blocks that LLVM turns into vector instructions: 2**x, popcount, branch-free minimum and maximum."""

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["exp2_nonpositive", "exp2_nonpositive_double", "fast_max", "fast_min", "popcount"]

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
