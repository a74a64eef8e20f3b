"""Mutants: small changes in the body of a function.

A rule is a generator that takes one node of the syntax tree and yields replacements for it. `RULES`
are applied to each expression, and `STATEMENT_RULES` to each statement.
"""

import ast
import copy
from contextlib import contextmanager

__all__ = ["Mutant", "mutants_of"]

OTHER_OPERATOR = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
SHAPE_METHODS = {"sum", "mean", "swapaxes", "reshape", "transpose", "repeat", "copy", "astype"}
PRODUCTS = {"matmul", "matmul_like", "call"}
CHOICES = {"where", "Where"}
AXES = {"axis", "dim"}
SUMS = {"sum": "mean", "mean": "sum"}


class Mutant:
    """One small change in the body of one function.

    Attributes
    ----------
    target : Target
    line : int
    span : range
        Lines of the statement, used to find the tests that execute it.
    before, after : str
        The statement before and after the change, on one line.
    """

    def __init__(self, target, statement, place, node):
        self.target = target
        self.place = place  # (parent, field, index or None) of the node to replace
        self.node = node
        self.span = range(statement.lineno, _last_line(statement) + 1)
        self.line = statement.lineno
        self.before = one_line(statement)
        if _at(place) is statement:
            self.after = one_line(node)
        else:
            with self.applied():
                self.after = one_line(statement)

    def __repr__(self):
        return f"{self.target.file}:{self.line}: {self.change}"

    @property
    def change(self):
        """Description of the change: the statement before and after it."""
        return f"{self.before} -> {self.after}"

    @contextmanager
    def applied(self):
        """Context manager that applies the change to the target's syntax tree."""
        before = _at(self.place)
        _put(self.place, self.node)
        try:
            yield
        finally:
            _put(self.place, before)

    def code(self):
        """Return the code object of the changed function."""
        with self.applied():
            return self.target.code()


def one_line(statement):
    """Return the first line of a statement as text."""
    return ast.unparse(statement).split("\n")[0]


def mutants_of(target):
    """Return all distinct mutants of a target, sorted by line.

    Parameters
    ----------
    target : Target

    Returns
    -------
    list of Mutant
    """
    found = {}
    for statement, place in _statements(target.node):
        for at, node in _changes(statement, place):
            ast.copy_location(node, _at(at))
            ast.fix_missing_locations(node)
            mutant = Mutant(target, statement, at, node)
            if mutant.before != mutant.after:
                found.setdefault((mutant.line, mutant.change), mutant)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _statements(function):
    """Yield (statement, place) for each statement that can affect a gradient.

    `place` is the statement's position in the syntax tree: (parent, field, index).
    """
    blocks = [function]
    while blocks:
        block = blocks.pop(0)
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(block, field, None)
            for index, statement in enumerate(inner if isinstance(inner, list) else ()):
                blocks.append(statement)
                if not isinstance(statement, (ast.Raise, ast.Assert, ast.Pass)) and not (
                    isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                ):
                    yield statement, (block, field, index)


def _last_line(statement):
    """Return the last line number of a simple statement, or of a compound statement's header."""
    body = getattr(statement, "body", None)
    return statement.end_lineno if body is None else max(statement.lineno, body[0].lineno - 1)


def _changes(statement, place):
    for rule in STATEMENT_RULES:
        for node in rule(statement):
            yield place, node
    for at in _expressions(statement):
        for rule in RULES:
            for node in rule(_at(at)):
                yield at, node


def _expressions(node):
    """Yield the place of each expression in a statement, but not in statements nested in it.

    A place is a position in the syntax tree: (parent, field, index). `index` is None if the field
    is not a list.
    """
    for field, value in ast.iter_fields(node):
        for index, part in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(part, ast.expr) and not _is_free(node, part):
                yield node, field, index
            if isinstance(part, ast.AST) and not isinstance(part, (ast.stmt, ast.arguments)):
                if not _is_negative(part):
                    yield from _expressions(part)


def _is_free(parent, node):
    """Return True if changing this node would not change the result of the function.

    This is the case for the -1 of a reshape, because NumPy treats other negative sizes like -1, and
    for `strict=True`, which only adds a check.
    """
    if isinstance(parent, ast.keyword):
        return parent.arg == "strict" and isinstance(node, ast.Constant)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        return parent.func.attr == "reshape" and _is_negative(node)
    return False


def _at(place):
    parent, field, index = place
    value = getattr(parent, field)
    return value if index is None else value[index]


def _put(place, node):
    parent, field, index = place
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _with(node, **fields):
    """Return a shallow copy of a syntax tree node with some fields replaced."""
    node = copy.copy(node)
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _negated(node):
    return ast.UnaryOp(ast.USub(), node)


def _is_negative(node):
    """Return True for a negative literal such as -1, which Python parses as an operation."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def other_operator(node):
    """Replace an operator: - by +, / by *, <= by <, >= by <, != by ==, `or` by `and`, etc."""
    if isinstance(node, (ast.BinOp, ast.BoolOp)):
        if type(node.op) in OTHER_OPERATOR:
            yield _with(node, op=OTHER_OPERATOR[type(node.op)]())
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for other in (OTHER_OPERATOR, OPPOSITE):
                if type(operator) in other:
                    operators = list(node.ops)
                    operators[index] = other[type(operator)]()
                    yield _with(node, ops=operators)


def dropped_part(node):
    """Mutate a sum or a product: drop one of its terms or factors."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        yield node.left
        if isinstance(node.op, ast.Sub):
            yield _negated(node.right)
        elif not isinstance(node.op, ast.Div):
            yield node.right


def other_order(node):
    """Swap the operands of `a @ b` or `Op.call(a, b)`, or the two values of a `where`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield _with(node, left=node.right, right=node.left)
    elif isinstance(node, ast.Call):
        names, arguments = ast.unparse(node.func).split("."), node.args
        if CHOICES & set(names) and len(arguments) == 3:
            yield _with(node, args=[arguments[0], arguments[2], arguments[1]])
        elif names[-1] in PRODUCTS and len(arguments) >= 2:
            yield _with(node, args=[arguments[1], arguments[0], *arguments[2:]])


def removed_sign(node):
    """Replace -x, `not x` and ~x by x."""
    if isinstance(node, ast.UnaryOp) and not _is_negative(node):
        yield node.operand


def other_constant(node):
    """Increase the absolute value of a number by 1, or negate a bool."""
    if _is_negative(node) and isinstance(node.operand.value, (int, float)):
        yield _negated(ast.Constant(node.operand.value + 1))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)


def other_axis(node):
    """Replace the argument `axis` or `dim` by the first axis, the last axis or None."""
    if isinstance(node, ast.Call):
        for index, keyword in enumerate(node.keywords):
            if keyword.arg in AXES and ast.unparse(keyword.value) != "None":
                named = isinstance(keyword.value, (ast.Name, ast.Attribute))
                total = isinstance(node.func, ast.Attribute) and node.func.attr in SUMS
                for axis in ((0, -1) if named else ()) + ((None,) if total else ()):
                    keywords = list(node.keywords)
                    keywords[index] = ast.keyword(keyword.arg, ast.Constant(axis))
                    yield _with(node, keywords=keywords)


def removed_call(node):
    """Replace sum_to_shape(x, shape), x.sum(...), x.reshape(...) and Op.call(x, ...) by x."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in SHAPE_METHODS:
            yield node.func.value
        elif node.func.attr == "call" and node.args and not isinstance(node.args[0], ast.Starred):
            yield node.args[0]
    elif isinstance(node.func, ast.Name) and node.func.id == "sum_to_shape":
        yield node.args[0]


def sum_or_mean(node):
    """Replace a sum by a mean, or a mean by a sum."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in SUMS:
            yield _with(node, func=_with(node.func, attr=SUMS[node.func.attr]))


def negated_choice(node):
    """Replace `a if x else b` by `b if x else a`."""
    if isinstance(node, ast.IfExp):
        yield _with(node, body=node.orelse, orelse=node.body)


def negated_test(statement):
    """Replace `if x` by `if not x`, and `while x` by `while not x`."""
    if isinstance(statement, (ast.If, ast.While)):
        if not isinstance(statement.test, (ast.Compare, ast.UnaryOp)):
            yield _with(statement, test=ast.UnaryOp(ast.Not(), statement.test))


def other_update(statement):
    """Change += to -= or *= to /=, or remove an update: `x[...] = y` or a standalone call."""
    if isinstance(statement, ast.AugAssign):
        if type(statement.op) in OTHER_OPERATOR:
            yield _with(statement, op=OTHER_OPERATOR[type(statement.op)]())
        yield ast.Pass()
    elif isinstance(statement, ast.Expr):
        yield ast.Pass()
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        yield ast.Pass()


def wrong_gradient(statement):
    """Replace a returned gradient by None, change its sign, or swap two neighboring gradients."""
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]).startswith("grad"):
        if not isinstance(statement.value, (ast.Constant, ast.UnaryOp, ast.Tuple)):
            yield _with(statement, value=_negated(statement.value))
    elif isinstance(statement, ast.Return) and isinstance(statement.value, ast.Tuple):
        items = statement.value.elts
        for index in range(len(items)):
            for item in _wrong_item(items[index]):
                yield _returned(statement, items[:index] + [item] + items[index + 1 :])
            pair = items[index : index + 2][::-1]
            yield _returned(statement, items[:index] + pair + items[index + 2 :])
    elif isinstance(statement, ast.Return) and statement.value is not None:
        for item in _wrong_item(statement.value):
            yield _with(statement, value=item)


def _returned(statement, items):
    return _with(statement, value=_with(statement.value, elts=items))


def _wrong_item(item):
    if isinstance(item, (ast.Constant, ast.Starred)):
        return
    yield ast.Constant(None)
    if isinstance(item, ast.IfExp):
        if not isinstance(item.body, ast.UnaryOp):
            yield _with(item, body=_negated(item.body))
    elif not isinstance(item, ast.UnaryOp):
        yield _negated(item)


RULES = (
    other_operator,
    dropped_part,
    other_order,
    removed_sign,
    other_constant,
    other_axis,
    removed_call,
    sum_or_mean,
    negated_choice,
)
STATEMENT_RULES = (negated_test, other_update, wrong_gradient)
