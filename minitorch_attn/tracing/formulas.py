"""One short formula for each operation, forward and backward, in the letters of its own code.

The letters are the names of the arguments of `forward`, and `grad_y` those of `backward`. The
derivation of each is in the docstring of its class. `sum_to(g, a)` adds up what broadcasting
repeated, so that g gets the shape of a; `mean` and `sum` without more run over the axes that the
operation reduces.
"""

from ..autograd.function import Function

__all__ = ["FORMULAS", "formula", "labels", "name_of"]

_SAME_ELEMENTS = "grad_x = the same elements of grad_y in the shape of x"
_PLACED = "grad_x = zeros with grad_y added where each element was taken"
_ZERO = "grad_x = 0"

# "file.Class": (forward, backward)
FORMULAS = {
    # one number at a time
    "elementwise.Add": ("c = a + b", "grad_a = sum_to(grad_c, a), grad_b = sum_to(grad_c, b)"),
    "elementwise.Sub": ("c = a - b", "grad_a = sum_to(grad_c, a), grad_b = sum_to(-grad_c, b)"),
    "elementwise.Mul": (
        "c = a * b",
        "grad_a = sum_to(grad_c * b, a), grad_b = sum_to(grad_c * a, b)",
    ),
    "elementwise.Div": (
        "c = a / b",
        "grad_a = sum_to(grad_c / b, a), grad_b = sum_to(-grad_c * a / b^2, b)",
    ),
    "elementwise.Neg": ("y = -x", "grad_x = -grad_y"),
    "elementwise.Abs": ("y = abs(x)", "grad_x = grad_y * sign(x)"),
    "power.Square": ("y = x^2", "grad_x = grad_y * 2 * x"),
    "power.Sqrt": ("y = sqrt(x)", "grad_x = grad_y / (2 * y)"),
    "power.Rsqrt": ("y = 1 / sqrt(x)", "grad_x = -grad_y * y^3 / 2"),
    "power.Reciprocal": ("y = 1 / x", "grad_x = -grad_y * y^2"),
    "power.PowerOfNumber": ("y = x^exponent", "grad_x = grad_y * exponent * x^(exponent - 1)"),
    "power.Power": (
        "c = a^b",
        "grad_a = sum_to(grad_c * b * a^(b - 1), a), grad_b = sum_to(grad_c * c * log(a), b)",
    ),
    "exponential.Exp": ("y = exp(x)", "grad_x = grad_y * y"),
    "exponential.Expm1": ("y = exp(x) - 1", "grad_x = grad_y * (y + 1)"),
    "exponential.Log": ("y = log(x)", "grad_x = grad_y / x"),
    "exponential.Log1p": ("y = log(1 + x)", "grad_x = grad_y / (1 + x)"),
    "exponential.LogToBase": ("y = log(x) / log(base)", "grad_x = grad_y / (x * log(base))"),
    "trigonometric.Sin": ("y = sin(x)", "grad_x = grad_y * cos(x)"),
    "trigonometric.Cos": ("y = cos(x)", "grad_x = -grad_y * sin(x)"),
    "trigonometric.Tan": ("y = tan(x)", "grad_x = grad_y * (1 + y^2)"),
    "trigonometric.Erf": ("y = erf(x)", "grad_x = grad_y * 2 / sqrt(pi) * exp(-x^2)"),
    "sigmoid.Tanh": ("y = tanh(x)", "grad_x = grad_y * (1 - y^2)"),
    "sigmoid.Sigmoid": ("y = 1 / (1 + exp(-x))", "grad_x = grad_y * y * (1 - y)"),
    "sigmoid.LogSigmoid": ("y = -log(1 + exp(-x))", "grad_x = grad_y / (1 + exp(x))"),
    "sigmoid.Softplus": (
        "y = log(1 + exp(beta * x)) / beta",
        "grad_x = grad_y / (1 + exp(-beta * x))",
    ),
    "sigmoid.LogAddExp": (
        "y = log(exp(a) + exp(b))",
        "grad_a = sum_to(grad_y / (1 + exp(b - a)), a), "
        "grad_b = sum_to(grad_y / (1 + exp(a - b)), b)",
    ),
    "activation.Relu": ("y = max(x, 0)", "grad_x = grad_y * (x > 0)"),
    "activation.LeakyRelu": (
        "y = where(x > 0, x, slope * x)",
        "grad_x = grad_y * where(x > 0, 1, slope)",
    ),
    "activation.Elu": (
        "y = scale * where(x > 0, x, alpha * (exp(rate * x) - 1))",
        "grad_x = grad_y * scale * where(x > 0, 1, alpha * rate * exp(rate * x))",
    ),
    "activation.HardTanh": (
        "y = min(max(x, low), high)",
        "grad_x = grad_y * (x > low) * (x < high)",
    ),
    "gate.Gelu": (
        "y = x * (1 + erf(x / sqrt(2))) / 2",
        "grad_x = grad_y * ((1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 * pi))",
    ),
    "gate.GeluTanh": (
        "y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2",
        "grad_x = grad_y * (h + y * (1 - h) * 2 * u'), h = y / x, "
        "u' = sqrt(2 / pi) * (1 + 0.134145 * x^2)",
    ),
    "gate.Silu": (
        "y = x / (1 + exp(-x))",
        "grad_x = grad_y * (1 + x - y) / (1 + exp(-x))",
    ),
    "gate.Mish": (
        "y = x * tanh(log(1 + exp(x)))",
        "grad_x = grad_y * (t + x * (1 - t^2) / (1 + exp(-x))), t = tanh(log(1 + exp(x)))",
    ),
    "gate.HardSwish": (
        "y = x * min(max(x / 6 + 1 / 2, 0), 1)",
        "grad_x = grad_y * where(x > -3, where(x < 3, x / 3 + 1 / 2, 1), 0)",
    ),
    "blend.Lerp": (
        "y = a + w * (b - a)",
        "grad_a = sum_to(grad_y * (1 - w), a), grad_b = sum_to(grad_y * w, b), "
        "grad_w = sum_to(grad_y * (b - a), w)",
    ),
    "rounding.Zero": ("y = 0 * x", _ZERO),
    "rounding.Sign": ("y = sign(x)", _ZERO),
    "rounding.Round": ("y = a whole number next to x", _ZERO),
    "rounding.WholeQuotient": ("c = a whole number next to a / b", "grad_a = 0, grad_b = 0"),
    "rounding.Remainder": (
        "c = a - floor(a / b) * b",
        "grad_a = sum_to(grad_c, a), grad_b = sum_to(-grad_c * floor(a / b), b)",
    ),
    # a choice
    "selection.Where": (
        "y = where(condition, a, b)",
        "grad_a = sum_to(where(condition, grad_y, 0), a), "
        "grad_b = sum_to(where(condition, 0, grad_y), b)",
    ),
    "selection.Maximum": (
        "c = max(a, b)",
        "grad_a = sum_to(grad_c * (a > b), a), grad_b = sum_to(grad_c * (b > a), b); "
        "half each where equal",
    ),
    "selection.Minimum": (
        "c = min(a, b)",
        "grad_a = sum_to(grad_c * (a < b), a), grad_b = sum_to(grad_c * (b < a), b); "
        "half each where equal",
    ),
    "selection.Clamp": (
        "y = min(max(x, low), high)",
        "grad_x = grad_y * (x >= low) * (x <= high)",
    ),
    "selection.ClampTo": (
        "y = min(max(x, low), high)",
        "the gradient goes to whichever of x, low and high was chosen",
    ),
    "dropout.Dropout": ("y = x * mask * scale", "grad_x = grad_y * mask * scale"),
    # sums
    "reduce.Sum": ("y = sum(x)", "grad_x = grad_y repeated to the shape of x"),
    "reduce.Mean": ("y = sum(x) / n", "grad_x = grad_y / n repeated to the shape of x"),
    "reduce.Prod": ("y = product(x)", "grad_x_i = grad_y * the product of all other x"),
    "extreme.Extreme": (
        "y = the largest of x, or the smallest",
        "grad_x = grad_y where x = y, else 0; ties share it",
    ),
    "extreme.TieShare": ("w = 1 / k at each of the k places where x = y, else 0", _ZERO),
    "order.Median": (
        "y = the middle one of x in order",
        "grad_x = grad_y where x = y, else 0; ties share it",
    ),
    "variance.Var": (
        "y = sum((x - mean(x))^2) / (n - correction)",
        "grad_x = grad_y * 2 * (x - mean(x)) / (n - correction)",
    ),
    "variance.Std": (
        "y = sqrt(sum((x - mean(x))^2) / (n - correction))",
        "grad_x = grad_y * (x - mean(x)) / (y * (n - correction))",
    ),
    "vector_norm.EuclideanNorm": ("y = sqrt(sum(x^2))", "grad_x = grad_y * x / y"),
    "vector_norm.PNorm": (
        "y = sum(abs(x)^p)^(1 / p)",
        "grad_x = grad_y * sign(x) * abs(x)^(p - 1) / y^(p - 1)",
    ),
    "scan.Cumsum": ("y_i = x_0 + ... + x_i", "grad_x_i = grad_y_i + ... + grad_y_last"),
    "scan.Cumprod": (
        "y_i = x_0 * ... * x_i",
        "grad_x_i = sum over k >= i of grad_y_k * y_k / x_i",
    ),
    "scan.Shift": ("y_i = x_(i - by)", "grad_x_i = grad_y_(i + by)"),
    "scan.Recurrence": (
        "s_i = g_i + a_i * s_(i-1)",
        "grad_g_i = grad_s_i + a_(i+1) * grad_g_(i+1), grad_a_i = grad_g_i * s_(i-1)",
    ),
    # products
    "matmul.MatMul": ("c = a @ b", "grad_a = grad_c @ b^T, grad_b = a^T @ grad_c"),
    "linear.Linear": (
        "y = x @ weight^T + bias",
        "grad_x = grad_y @ weight, grad_weight = grad_y^T @ x, grad_bias = grad_y summed over rows",
    ),
    "linear.ColumnSum": ("y_j = sum over i of x_ij", "grad_x_ij = grad_y_j"),
    "conv.Conv": (
        "y = each window of x times weight, summed, + bias",
        "grad_x = the transposed convolution of grad_y with weight, "
        "grad_weight = sum over places of grad_y * the window of x, "
        "grad_bias = grad_y summed over places",
    ),
    "conv.ConvTransposed": (
        "x = every g times weight, added where its window lies, + bias",
        "grad_g = the convolution of grad_x with weight, "
        "grad_weight = sum over places of g * the window of grad_x, "
        "grad_bias = grad_x summed over places",
    ),
    "conv.ConvKernel": (
        "w = sum over places of g * the window of x",
        "grad_g = the convolution of x with grad_weight, "
        "grad_x = the transposed convolution of g with grad_weight",
    ),
    # softmax and losses
    "softmax.Softmax": (
        "y = exp(x) / sum(exp(x))",
        "grad_x = y * (grad_y - sum(grad_y * y))",
    ),
    "softmax.MaskedSoftmax": (
        "y = exp(x) / sum(exp(x)), what is blocked left out",
        "grad_x = y * (grad_y - sum(grad_y * y))",
    ),
    "softmax.LogSoftmax": (
        "y = x - log(sum(exp(x)))",
        "grad_x = grad_y - exp(y) * sum(grad_y)",
    ),
    "softmax.LogSumExp": ("y = log(sum(exp(x)))", "grad_x = grad_y * exp(x - y)"),
    "loss.CrossEntropy": (
        "loss = mean over rows of -log softmax(logits)[label]",
        "grad_logits = grad_loss * (softmax(logits) - onehot(label)) / rows",
    ),
    "loss_regression.BinaryCrossEntropy": (
        "y = -(t * log(x) + (1 - t) * log(1 - x))",
        "grad_x = grad_y * (x - t) / (x * (1 - x)), grad_t = grad_y * (log(1 - x) - log(x))",
    ),
    # attention
    "attention.Attention": (
        "context = softmax(scale * query @ key^T + mask) @ value",
        "grad_value = p^T @ g, ds = p * (g @ value^T - sum(g * context)), "
        "grad_query = scale * ds @ key, grad_key = scale * ds^T @ query",
    ),
    "feed_forward.FeedForward": (
        "y = f(x @ weight1^T + bias1) @ weight2^T + bias2",
        "grad_weight2 = grad_y^T @ h, du = (grad_y @ weight2) * f'(u), "
        "grad_weight1 = du^T @ x, grad_x = du @ weight1",
    ),
    "feed_forward.FeedForwardInBlocks": (
        "y = f(x @ weight1^T + bias1) @ weight2^T + bias2, one block of rows at a time",
        "as FeedForward, one block of rows at a time",
    ),
    "attention_tiled.TiledAttention": (
        "context = softmax(scale * query @ key^T + mask) @ value, tile by tile",
        "as Attention, one tile of p at a time",
    ),
    "attention_causal.CausalAttention": (
        "context_i = softmax(scale * query_i @ key^T) @ value over the keys up to i",
        "as Attention, one block of queries at a time",
    ),
    "rotary.Rotary": (
        "each pair (a, b) of x becomes (a * cos - b * sin, b * cos + a * sin)",
        "grad_x = each pair of grad_y turned back by the same angle",
    ),
    # normalisation
    "norm.LayerNorm": (
        "y = (x - m) * r * weight + bias, m = mean(x), r = 1 / sqrt(mean((x - m)^2) + eps)",
        "h = grad_y * weight, grad_x = r * (h - mean(h) - x_hat * mean(h * x_hat)), "
        "grad_weight = sum over rows of grad_y * x_hat, grad_bias = sum over rows of grad_y",
    ),
    "norm.RMSNorm": (
        "y = x * r * weight, r = 1 / sqrt(mean(x^2) + eps)",
        "h = grad_y * weight, grad_x = r * (h - x_hat * mean(h * x_hat)), "
        "grad_weight = sum over rows of grad_y * x_hat",
    ),
    "batch_norm.NormOver": (
        "y = (x - m) * r * weight + bias, m = mean(x), r = 1 / sqrt(var(x) + eps)",
        "h = grad_y * weight, grad_x = r * (h - mean(h) - x_hat * mean(h * x_hat)), "
        "grad_weight = sum(grad_y * x_hat), grad_bias = sum(grad_y)",
    ),
    # the same elements elsewhere
    "shape.Reshape": ("y = x in another shape", _SAME_ELEMENTS),
    "shape.Permute": ("y = x with its axes in the order dims", "grad_x = grad_y, axes put back"),
    "shape.Transpose": ("y = x with two axes exchanged", "grad_x = grad_y, exchanged back"),
    "broadcast.BroadcastTo": ("y = x repeated to a shape", "grad_x = sum_to(grad_y, x)"),
    "arrange.Flip": ("y = x read backwards", "grad_x = grad_y read backwards"),
    "arrange.Roll": ("y = x shifted round", "grad_x = grad_y shifted back"),
    "arrange.Tile": ("y = copies of x side by side", "grad_x = the sum over the copies"),
    "join.Cat": ("y = the inputs one after the other", "each input receives its piece of grad_y"),
    "join.Stack": ("y = the inputs along a new axis", "each input receives its slice of grad_y"),
    "join.Split": ("y_1, y_2, ... = pieces of x", "grad_x = their gradients joined again"),
    "join.Unbind": ("y_1, y_2, ... = slices of x", "grad_x = their gradients stacked again"),
    "pad.Pad": ("y = x with entries around it", "grad_x = grad_y without them"),
    "index.Slice": ("y = x[index]", "grad_x = zeros with grad_y at [index]"),
    "index.Place": ("y = zeros with x at [index]", "grad_x = grad_y[index]"),
    "index.LookUp": ("y = x[indices]", _PLACED),
    "index.PlaceAt": ("y = zeros with x added at the indices", "grad_x = grad_y[indices]"),
    "index.Assign": (
        "y = x with value at [index]",
        "grad_x = grad_y with zeros at [index], grad_value = sum_to(grad_y[index], value)",
    ),
    "index.AddAt": (
        "y = x with value added at the indices",
        "grad_x = grad_y, grad_value = sum_to(grad_y[indices], value)",
    ),
    "extreme.Pick": ("y_j = x_(index_j)", _PLACED),
    "extreme.Place": ("y_(index_j) = x_j, else 0", "grad_x_j = grad_y_(index_j)"),
    "scatter.Gather": ("y = x at index along one axis", _PLACED),
    "scatter.GatherBack": (
        "y = zeros with x added at index along one axis",
        "grad_x = grad_y at index",
    ),
    "scatter.Scatter": (
        "y = x with src written at index",
        "grad_x = grad_y with zeros at index, grad_src = grad_y at index",
    ),
    "scatter.ScatterAdd": (
        "y = x with src added at index",
        "grad_x = grad_y, grad_src = grad_y at index",
    ),
    "embedding.Embedding": (
        "y = weight[ids]",
        "grad_weight[r] = sum of grad_y over the places where ids = r",
    ),
    "embedding.RowSum": ("y[r] = sum of x over the places where ids = r", "grad_x = grad_y[ids]"),
    "embedding.RowTake": (
        "y = weight[ids]",
        "grad_weight[r] = sum of grad_y over the places where ids = r",
    ),
    "triangle.Triangle": ("y = a triangle of x, else 0", "grad_x = the same triangle of grad_y"),
    "triangle.Diagonal": ("y = a diagonal of x", "grad_x = zeros with grad_y on the diagonal"),
    "triangle.DiagonalPlace": (
        "y = zeros with x on a diagonal",
        "grad_x = that diagonal of grad_y",
    ),
    # windows of images
    "fold.Patches": ("y = every window of x", _PLACED),
    "fold.PatchSum": ("y = zeros with each window x added", "grad_x = every window of grad_y"),
    "sliding.Windows": ("y = windows along an axis of x", _PLACED),
    "sliding.WindowSum": ("y = zeros with the windows x added", "grad_x = windows of grad_y"),
    "pool.MaxPool": (
        "y = the largest of each window of x, and its place",
        "grad_x = zeros with grad_y added at those places",
    ),
    "taps.TapSum": ("y_o = sum over taps t of w_t * x_(i_t)", "grad_x = grad_y through w^T"),
    # recurrent layers
    "recurrent.RnnSequence": (
        "h_t = f(w_ih @ x_t + b_ih + w_hh @ h_(t-1) + b_hh)",
        "da_t = grad_h_t * f'(a_t), grad_h_(t-1) += w_hh^T @ da_t, grad_x_t = w_ih^T @ da_t",
    ),
    "gru.GruSequence": (
        "h_t = (1 - z_t) * n_t + z_t * h_(t-1), with gates r_t and z_t",
        "from the last step to the first: grad_h_(t-1) += z_t * grad_h_t + what passes the gates",
    ),
    "lstm.LstmSequence": (
        "c_t = f_t * c_(t-1) + i_t * g_t, h_t = o_t * tanh(c_t), with gates i_t, f_t and o_t",
        "from the last step to the first: grad_c_(t-1) = f_t * grad_c_t",
    ),
    # memory and the graph
    "cast.Cast": ("y = x in another dtype", "grad_x = grad_y in the dtype of x"),
    "cast.Move": ("y = x on another device", "grad_x = grad_y on the device of x"),
    "cast.Clone": ("y = x in memory of its own", "grad_x = grad_y"),
    "cast.Alias": ("y = x, the same memory", "grad_x = grad_y"),
    "inplace.Overwrite": ("y = value", "grad_x = 0, grad_value = grad_y"),
    "inplace.WriteThrough": (
        "base with one of its views replaced by value",
        "grad_base = grad_output with zeros in the view, "
        "grad_value = grad_output seen through the view",
    ),
    "inplace._Blank": ("x with zeros in a view", "grad_x = grad_output with zeros there"),
    "hooks.Seam": (
        "the inputs as they are",
        "the gradients as they come, or as the hooks of a module return them",
    ),
}


def name_of(function):
    """The key of a Function in `FORMULAS`: its file and its class."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def formula(function):
    """The forward and the backward formula of a Function.

    Parameters
    ----------
    function : type
        One that is not of this package is read by its docstring, as those here are written: the
        first paragraph, and the one that starts with "Derivative:".

    Returns
    -------
    (str, str)
        Empty where nothing is known.
    """
    if function.__module__.startswith(__name__.split(".")[0] + "."):
        found = FORMULAS.get(name_of(function))
        if found is not None:
            return found
    doc = function.__doc__
    paragraphs = [] if doc is None or doc == Function.__doc__ else doc.split("\n\n")
    first = " ".join(paragraphs[0].split()) if paragraphs else ""
    for paragraph in paragraphs:
        text = " ".join(paragraph.split())
        if text.startswith("Derivative:"):
            return first, text.removeprefix("Derivative:").partition("Saved:")[0].strip()
    return first, ""


def labels(function, inputs, outputs):
    """What the code of a Function calls its inputs and outputs.

    Parameters
    ----------
    function : type
    inputs, outputs : int
        How many there were.

    Returns
    -------
    (list of str, list of str)
        As ["a", "b"], ["c"]: the arguments of `forward`, and those of `backward` without "grad_".
    """
    given = _names(function.forward, inputs)
    made = [name.removeprefix("grad_") for name in _names(function.backward, outputs)]
    return given, ["output" if name == "grad" else _worded(name) for name in made]


def _worded(name):
    """`*grads` are those of output_0, output_1 and so on."""
    return f"output_{name}" if name.isdigit() else name


def _names(method, count):
    """The positional arguments after ctx, `xs` standing for x_0, x_1 and so on."""
    code = method.__code__
    names = list(code.co_varnames[1 : code.co_argcount])
    if code.co_flags & 0x04:  # *xs
        several = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        stem = several.removesuffix("s")
        names += [f"{stem}_{i}" for i in range(count - len(names))]
    names += [f"input_{i}" for i in range(len(names), count)]
    return names[:count]
