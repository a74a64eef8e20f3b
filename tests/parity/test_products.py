"""Products: matmul and related operations, einsum, linear, distances."""

from parity.comparing import Op, checks

LABELS = "abcd"
EQUATIONS = (
    "ij,jk->ik", "bij,bjk->bik", "i,i->", "i,j->ij", "ii->i", "ii", "ij->ji", "ij->", "...i->...",
    "bhqd,bhkd->bhqk", "...ij,...jk->...ik", "ij,ij->ij", "ij,j", "i,ij,j->", "bij,kj->bik",
    "ijk->kij", "iij->j", "ij,kj,kl->il",
)  # fmt: skip


def multiplied(d):
    """Vectors, matrices and stacks of them, which broadcast."""
    inner, options = d.choice(3, 2, 1, 0, 4), {"dtype": d.dtype()}
    lead = d.broadcastable(2, most=2)
    left = d.choice((d.integer(0, 3), inner), (inner,))
    right = d.choice((inner + d.rarely(), d.integer(0, 3)), (inner,))
    a = left if len(left) == 1 else (*lead[0], *left)
    b = right if len(right) == 1 else (*lead[1], *right)
    return d.tensor(a, **options), d.tensor(b, **options)


def whole_product(d):
    n = d.integer(0, 3)
    return d.tensor((2, n), dtype="int64"), d.tensor((n, 3), dtype="int64")


def of_sizes(*shapes):
    """Operands whose axes have drawn sizes, one for each letter; now and then one that differs."""

    def draw(d):
        sizes = {label: d.choice(2, 3, 1, 4, 0) for label in LABELS}
        dtype = d.dtype()
        wanted = [[sizes[label] for label in shape] for shape in shapes]
        if d.rarely():
            wanted[-1] = d.choice([*wanted[-1], 2], [n + 1 for n in wanted[-1]])
        return tuple([d.tensor(shape, dtype=dtype) for shape in wanted])

    return draw


def added(*shapes):
    """beta * input + alpha * product, the input broadcast."""
    products = of_sizes(*shapes)

    def draw(d):
        operands = products(d)
        lead, rest = operands[0], operands[1:]
        shape = d.choice(lead.shape, lead.shape[-1:], (), (1,) * lead.ndim)
        if not all(x.host.size for x in rest):  # there PyTorch's addmv does not broadcast
            shape = lead.shape
        options = d.some(alpha=d.choice(2, 0.5, 0), beta=d.choice(0.3, 3, 0))
        # With beta = 0 ours leaves the input out altogether, PyTorch keeps a gradient of zeros.
        grad = False if options.get("beta") == 0 else None
        return d.tensor(shape, dtype=lead.dtype, grad=grad), *rest, options

    return draw


def drawn_einsum(d):
    equation = d.choice(*EQUATIONS)
    sizes = {label: d.choice(2, 3, 1, 4, 0) for label in "bhijklqd"}
    dtype, operands = d.dtype(), []
    for term in equation.split("->")[0].split(","):
        lead = d.choice((), (2,), (2, 3)) if "..." in term else ()
        operands.append(d.tensor((*lead, *[sizes[c] for c in term.strip(".")]), dtype=dtype))
    return equation, *operands


def inner(d):
    n, dtype = d.choice(3, 1, 0), d.dtype()
    a, b = ((*d.shape(0, 2), n + (d.rarely())) for _ in range(2))
    return d.tensor(d.choice(a, ()), dtype=dtype), d.tensor(b, dtype=dtype)


def contracted(d):
    dtype, n, m = d.dtype(), d.integer(1, 3), d.integer(0, 3)
    dims = d.choice(1, 0, 2, [[1], [0]], [[0, 1], [1, 0]])
    a = d.tensor((m, n), dtype=dtype)
    b = d.tensor((n, m) if dims not in (2,) else (m, n), dtype=dtype)
    return a, b, dims


def linear(d):
    features, out, dtype = d.choice(3, 1, 4, 0), d.choice(2, 1, 5), d.dtype()
    x = d.tensor((*d.shape(0, 3), features), dtype=dtype)
    weight = d.tensor((out, features + d.rarely()), dtype=dtype)
    if d.integer(0, 3) == 3:
        return x, d.tensor((features,), dtype=dtype)
    return x, weight, d.choice(None, d.tensor((out,), dtype=dtype))


def bilinear(d):
    dtype, lead = d.dtype(), d.shape(0, 3)
    first, second, out = d.choice(3, 1, 4), d.choice(2, 1, 5), d.choice(2, 1, 3)
    x, y = d.tensor((*lead, first), dtype=dtype), d.tensor((*lead, second), dtype=dtype)
    weight = d.tensor((out, first, second + d.rarely()), dtype=dtype)
    return x, y, weight, d.choice(None, d.tensor((out,), dtype=dtype))


def distance(d):
    dtype, n = d.dtype(), d.choice(3, 1, 2, 0)
    lead = d.broadcastable(2, most=2)
    a, b = ((*part, d.integer(0, 4), n) for part in lead)
    p = d.choice(2.0, 1.0, 3.0, 0.0, float("inf"), 1.5)
    exact = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    return d.tensor(a, dtype=dtype), d.tensor(b, dtype=dtype), d.some(p=p) | exact


test_products = checks(
    Op("matmul", multiplied),
    Op("operator.matmul", multiplied),
    Op("matmul", whole_product, label=" of integers"),
    Op("mm", of_sizes("ab", "bc")),
    Op("bmm", of_sizes("dab", "dbc")),
    Op("mv", of_sizes("ab", "b")),
    Op("dot", of_sizes("a", "a")),
    Op("vdot", of_sizes("a", "a")),
    Op("outer", of_sizes("a", "b")),
    Op("inner", inner),
    Op("tensordot", contracted),
    Op("einsum", drawn_einsum),
)
test_added_products = checks(
    Op("addmm", added("ac", "ab", "bc")),
    Op("addmv", added("a", "ab", "b")),
    Op("baddbmm", added("dac", "dab", "dbc")),
    Op("nn.functional.linear", linear),
    Op("nn.functional.bilinear", bilinear),
)
test_distances = checks(
    # PyTorch has the second derivative of cdist for none of these.
    Op("cdist", distance),
)
