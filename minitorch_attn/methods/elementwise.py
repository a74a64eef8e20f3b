"""Methods that compute element by element.

Each is one line that calls the operation of that name.
"""

from . import knot

__all__ = ["Elementwise"]


class Elementwise:
    """PyTorch's method names; the documentation is at the functions in `ops/`."""

    __slots__ = ()

    def exp(self):
        return knot.ops.exp(self)

    def expm1(self):
        return knot.ops.expm1(self)

    def log(self):
        return knot.ops.log(self)

    def log1p(self):
        return knot.ops.log1p(self)

    def log2(self):
        return knot.ops.log2(self)

    def log10(self):
        return knot.ops.log10(self)

    def sqrt(self):
        return knot.ops.sqrt(self)

    def rsqrt(self):
        return knot.ops.rsqrt(self)

    def reciprocal(self):
        return knot.ops.reciprocal(self)

    def square(self):
        return knot.ops.square(self)

    def neg(self):
        return knot.ops.neg(self)

    def abs(self):
        return knot.ops.abs(self)

    def sign(self):
        return knot.ops.sign(self)

    def sin(self):
        return knot.ops.sin(self)

    def cos(self):
        return knot.ops.cos(self)

    def tan(self):
        return knot.ops.tan(self)

    def tanh(self):
        return knot.ops.tanh(self)

    def sigmoid(self):
        return knot.ops.sigmoid(self)

    def erf(self):
        return knot.ops.erf(self)

    def relu(self):
        return knot.ops.relu(self)

    def floor(self):
        return knot.ops.floor(self)

    def ceil(self):
        return knot.ops.ceil(self)

    def round(self, *, decimals=0):
        return knot.ops.round(self, decimals=decimals)

    def trunc(self):
        return knot.ops.trunc(self)

    def isnan(self):
        return knot.ops.isnan(self)

    def isinf(self):
        return knot.ops.isinf(self)

    def isfinite(self):
        return knot.ops.isfinite(self)

    def add(self, other, *, alpha=1):
        return knot.ops.add(self, other, alpha=alpha)

    def sub(self, other, *, alpha=1):
        return knot.ops.sub(self, other, alpha=alpha)

    def mul(self, other):
        return knot.ops.mul(self, other)

    def div(self, other, *, rounding_mode=None):
        return knot.ops.div(self, other, rounding_mode=rounding_mode)

    def floor_divide(self, other):
        return knot.ops.floor_divide(self, other)

    def remainder(self, other):
        return knot.ops.remainder(self, other)

    def pow(self, exponent):
        return knot.ops.pow(self, exponent)

    def maximum(self, other):
        return knot.ops.maximum(self, other)

    def minimum(self, other):
        return knot.ops.minimum(self, other)

    def clamp(self, min=None, max=None):
        return knot.ops.clamp(self, min, max)

    def clip(self, min=None, max=None):
        return knot.ops.clamp(self, min, max)

    def lerp(self, end, weight):
        return knot.ops.lerp(self, end, weight)

    def logaddexp(self, other):
        return knot.ops.logaddexp(self, other)

    def masked_fill(self, mask, value):
        return knot.ops.masked_fill(self, mask, value)

    def where(self, condition, other):
        return knot.ops.where(condition, self, other)

    def eq(self, other):
        return knot.ops.eq(self, other)

    def ne(self, other):
        return knot.ops.ne(self, other)

    def lt(self, other):
        return knot.ops.lt(self, other)

    def le(self, other):
        return knot.ops.le(self, other)

    def gt(self, other):
        return knot.ops.gt(self, other)

    def ge(self, other):
        return knot.ops.ge(self, other)

    def logical_and(self, other):
        return knot.ops.logical_and(self, other)

    def logical_or(self, other):
        return knot.ops.logical_or(self, other)

    def logical_not(self):
        return knot.ops.logical_not(self)

    def addcmul(self, tensor1, tensor2, *, value=1):
        return knot.ops.addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1, tensor2, *, value=1):
        return knot.ops.addcdiv(self, tensor1, tensor2, value=value)

    def logical_xor(self, other):
        return knot.ops.logical_xor(self, other)

    def bitwise_and(self, other):
        return knot.ops.bitwise_and(self, other)

    def bitwise_or(self, other):
        return knot.ops.bitwise_or(self, other)

    def bitwise_xor(self, other):
        return knot.ops.bitwise_xor(self, other)

    def bitwise_not(self):
        return knot.ops.bitwise_not(self)

    def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
        return knot.ops.isclose(self, other, rtol, atol, equal_nan)

    def allclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
        return knot.ops.allclose(self, other, rtol, atol, equal_nan)

    def equal(self, other):
        return knot.ops.equal(self, other)
