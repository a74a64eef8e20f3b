"""What `x + y`, `-x`, `x < y` and their like call: the operation itself, without a step between."""

__all__ = ["bind"]

# Python's name of the operator -> the operation; each has a reflected form, as in `2 - x`.
_WITH_REFLECTION = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_PLAIN = {
    "neg": "neg",
    "abs": "abs",
    "invert": "bitwise_not",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
}


def bind(cls, ops):
    """Give `cls` the operators.

    Parameters
    ----------
    cls : type
        Tensor.
    ops : module
        Where the operations are.
    """
    for name, operation in {**_WITH_REFLECTION, **_PLAIN}.items():
        setattr(cls, f"__{name}__", getattr(ops, operation))
    for name, operation in _WITH_REFLECTION.items():
        setattr(cls, f"__r{name}__", _reflected(getattr(ops, operation)))


def _reflected(operation):
    def reflected(self, other):
        return operation(other, self)

    return reflected
