"""Elementwise functions: arithmetic, powers, exponentials, rounding, comparison, interpolation."""

from parity.comparing import Op, checks


def one(low=-2.0, high=2.0, kinds="f"):
    """One operand with elements in a range."""
    return lambda d: (d.tensor(kinds=kinds, low=low, high=high),)


def two(kinds="fib", low=-2.0, high=2.0, numbers=True):
    """Two operands that broadcast, or one and a number."""

    def draw(d):
        a, b = d.pair(kinds, low=low, high=high)
        return (a, d.number(low, high)) if numbers and d.integer(0, 4) == 4 else (a, b)

    return draw


def drawn_sum(d):
    a, b = d.pair("fi")
    return a, b, d.some(alpha=d.choice(2, -3))


def quotient(kinds="f", low=-2.0, high=2.0):
    def draw(d):
        a, b = d.pair(kinds, low=low, high=high)
        b = d.choice(b, d.number(0.5, 3.0))
        return a, b, d.some(rounding_mode=d.choice(None, "floor", "trunc", "round"))

    return draw


def whole_quotient(d):
    """Integers by integers, never by zero, where platforms differ."""
    a, b = d.pair("i", low=1, high=5)
    return a, d.choice(b, 2, 3)


def power(d):
    base = d.tensor(low=0.1, high=2.0)
    return base, d.choice(0, 1, 2, 3, -1, 0.5, -0.5, 2.0, 1.7)


def raised(d):
    base, exponent = d.pair("f", low=0.1, high=2.0)
    return base, exponent


def whole_power(d):
    base, exponent = d.pair("i", low=0, high=3)
    return base, exponent


def bounds(d):
    x = d.tensor(kinds=d.choice("f", "f", "i"))
    low, high = d.choice(None, -1, -0.5), d.choice(None, 1, 0.5)
    if d.flag():
        return x, low, high
    return x, d.some(min=low, max=high)


def tensor_bounds(d):
    x, low, high = d.pair(count=3)
    return x, d.choice(low, None), high


def blend(d):
    start, end, weight = d.pair(count=3, same=True)
    return start, end, d.choice(weight, d.number(0.0, 1.0))


def pointwise(name, *, method=True):
    def draw(d):
        x, a, b = d.pair(count=3, low=0.5, high=2.0)
        return x, a, b, d.some(value=d.choice(2, -0.5))

    return Op(name, draw, method=method)


def chosen(d):
    condition, a, b = d.broadcastable(3)
    a, b = d.tensor(a, "fib"), d.tensor(b, "fib")
    return d.mask(condition), d.choice(a, a, d.number()), d.choice(b, b, d.number())


def filled(d):
    x, mask = d.broadcastable(2)
    value = d.choice(d.number(), float("-inf"), d.tensor(()))
    return d.tensor(x, "f"), d.mask(mask), value


def near(d):
    a, b = d.pair("f")
    return a, b, d.some(rtol=0.5, atol=0.1, equal_nan=d.flag())


ANY = "fib"
REAL = [("exp", {}), ("expm1", {}), ("sin", {}), ("cos", {}), ("tan", {"low": -1, "high": 1}),
        ("tanh", {}), ("sigmoid", {}), ("erf", {}), ("log", {"low": 0.1}), ("log2", {"low": 0.1}),
        ("log10", {"low": 0.1}), ("log1p", {"low": -0.9}), ("sqrt", {"low": 0.1}),
        ("rsqrt", {"low": 0.1}), ("reciprocal", {"low": 0.2}),
        ("erfinv", {"low": -0.99, "high": 0.99})]  # fmt: skip
test_of_one_element = checks(
    *[Op(name, one(kinds="fffib", **options), wild=True) for name, options in REAL],
    *[Op(name, one(kinds="fi"), wild=True)
      for name in ("abs", "neg", "sign", "square", "floor", "ceil", "round", "trunc")],
    Op("round", lambda d: (d.tensor(), {"decimals": d.integer(-2, 3)}), label=" to decimals"),
    *[Op(name, one(kinds=ANY), wild=True) for name in ("isnan", "isinf", "isfinite")],
    *[Op(name, one(low=0, high=2, kinds="f"), label=" at 0") for name in ("sqrt", "log", "rsqrt")],
    Op("nan_to_num", lambda d: (d.tensor(kinds="fffib"), d.some(nan=2.5, posinf=3.0, neginf=-1)),
       wild=True),
    Op("logical_not", one(kinds=ANY)),
    Op("bitwise_not", one(kinds="ib")),
)  # fmt: skip
test_of_two_elements = checks(
    Op("add", two(), wild=True),
    Op("add", drawn_sum, label=" with alpha"),
    Op("sub", two(), wild=True),
    Op("sub", drawn_sum, label=" with alpha"),
    Op("mul", two(), wild=True),
    Op("div", two(low=0.5), wild=True),
    Op("div", quotient(low=0.5), label=" rounded"),
    # Where PyTorch insists on tensors, ours take numbers, too.
    *[Op(name, two(numbers=False), wild=True) for name in ("maximum", "minimum")],
    Op("logaddexp", lambda d: tuple(d.pair("fffib")), wild=True),
    Op("floor_divide", lambda d: tuple(d.pair("f", low=0.5, high=3.0))),
    Op("floor_divide", whole_quotient, label=" of integers"),
    Op("remainder", lambda d: tuple(d.pair("f", low=0.5, high=3.0))),
    Op("remainder", whole_quotient, label=" of integers"),
    Op("fmod", lambda d: tuple(d.pair("f", low=0.5, high=3.0))),
    Op("fmod", whole_quotient, label=" of integers"),
    Op("pow", power),
    Op("pow", raised, label=" by a tensor"),
    Op("pow", whole_power, label=" of integers"),
    Op("pow", lambda d: (d.number(0.5, 3.0), d.tensor()), label=" of a number"),
    *[Op(name, two(), wild=True) for name in ("eq", "ne", "lt", "le", "gt", "ge")],
    *[Op(f"logical_{name}", two(low=-1, high=1, numbers=False)) for name in ("and", "or", "xor")],
    *[Op(f"bitwise_{name}", lambda d: tuple(d.pair("ib"))) for name in ("and", "or", "xor")],
    Op("isclose", near, wild=True),
    Op("allclose", near, wild=True),
    Op("equal", lambda d: (a := d.tensor(kinds=ANY), d.choice(a, d.tensor(kinds=ANY)))),
    *[Op(f"operator.{name}", two()) for name in ("add", "mul", "lt", "ge", "eq")],
    Op("operator.sub", two()),
    *[Op(f"operator.{name}", lambda d: (d.number(), d.tensor(kinds="fi")), label=" from the right")
      for name in ("add", "sub", "mul", "lt")],
    Op("operator.truediv", lambda d: (d.number(), d.tensor(kinds="fi", low=1, high=3))),
    Op("operator.pow", lambda d: (d.number(0.5, 2), d.tensor())),
    Op("result_type", two()),
    Op("promote_types", lambda d: (d.dtype(ANY), d.dtype(ANY))),
)  # fmt: skip
test_bounds_and_blends = checks(
    Op("clamp", bounds, wild=True),
    Op("clamp", tensor_bounds, label=" by tensors"),
    Op("lerp", blend),
    pointwise("addcmul"),
    pointwise("addcdiv"),
    Op("where", chosen, method=False),
    Op("masked_fill", filled),
)
