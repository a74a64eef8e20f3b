"""DINO: self-distillation with no labels. A student learns to predict its own moving average.

Caron et al. 2021, "Emerging Properties in Self-Supervised Vision Transformers", arXiv:2104.14294v2.
Student and teacher have the same architecture. The teacher sees the large views of an image, and
the student sees all views. The student learns to predict the teacher's output for another view (Eq.
3). No gradient reaches the teacher; it is a moving average of the student. The networks could
collapse to the same output for every image. Two operations on the teacher's output prevent this
(section 3.1). Centering prevents one entry from dominating, and sharpening prevents a uniform
distribution.
"""

import math

from .. import nn, ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments
from ..nn import functional as F
from ..nn import init
from ..ops.vector_norm import norm

__all__ = [
    "DINO", "DINOHead", "cosine_schedule", "dino_loss", "teacher_temperature", "update_center",
    "update_teacher",
]  # fmt: skip


class DINOHead(nn.Module):
    """Projection head: an MLP, L2 normalization, and a linear layer with normalized weight rows.

    Parameters
    ----------
    in_dim : int
        Number of features of the backbone.
    out_dim : int
        Number K of outputs, 65,536 in the paper.
    hidden_dim : int, default 2048
    bottleneck_dim : int, default 256
        Number of features before the last layer.
    num_layers : int, default 3
        Number of linear layers of the MLP.
    norm_last_layer : bool, default True
        Whether the norms `weight_g` of the last layer's rows stay at 1. If False, they are learned.
    batch_norm : bool, default False
        Whether the hidden layers of the MLP have batch normalization. The paper's ViT does not
        use it. With small batches and few steps, it keeps the outputs for different images
        distinct.

    Attributes
    ----------
    mlp : Sequential
        Linear, GELU, ..., Linear.
    last_layer : NormedLinear

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, section 3.2 and appendix C.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> DINOHead(6, 11, hidden_dim=7, bottleneck_dim=5)(mt.randn(3, 6)).shape
    (3, 11)
    """

    def __init__(
        self, in_dim, out_dim, hidden_dim=2048, bottleneck_dim=256, num_layers=3,
        norm_last_layer=True, batch_norm=False,
    ):  # fmt: skip
        super().__init__()
        if num_layers < 1:
            raise ArgumentError(
                "DINOHead: num_layers must be at least 1", got=f"num_layers={num_layers}"
            )
        sizes = [in_dim, *[hidden_dim] * (num_layers - 1), bottleneck_dim]
        layers = []
        for i in range(num_layers):
            layers.append(nn.Linear(sizes[i], sizes[i + 1]))
            if i < num_layers - 1:
                layers += [nn.BatchNorm1d(hidden_dim)] * batch_norm + [nn.GELU()]
        self.mlp = nn.Sequential(*layers)
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                init.trunc_normal_(layer.weight, std=0.02)
                init.zeros_(layer.bias)
        self.last_layer = NormedLinear(bottleneck_dim, out_dim)
        self.last_layer.weight_g.requires_grad = not norm_last_layer

    def forward(self, x):
        # x: (batch, in) -> (batch, bottleneck) -> (batch, out)
        return self.last_layer(F.normalize(self.mlp(x), dim=-1))


class NormedLinear(nn.Module):
    """Linear layer without bias, with weight normalization: row k is g_k v_k / |v_k|.

    Parameters
    ----------
    in_features, out_features : int

    Attributes
    ----------
    weight_g : Parameter of shape (out, 1)
        Norms g of the rows, initially 1.
    weight_v : Parameter of shape (out, in)
        Directions v of the rows.

    References
    ----------
    .. [1] Salimans and Kingma 2016, "Weight Normalization", arXiv:1602.07868v3, Eq. 2.
    """

    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight_g = nn.Parameter(ops.ones(out_features, 1))
        self.weight_v = nn.Parameter(ops.empty(out_features, in_features))
        init.kaiming_uniform_(self.weight_v, a=math.sqrt(5))  # as in nn.Linear

    def forward(self, x):
        # x: (batch, in) -> (batch, out)
        norms = norm(self.weight_v, dim=1, keepdim=True)  # (out, 1)
        return F.linear(x, self.weight_v * (self.weight_g / norms))


@names_arguments
def dino_loss(student, teacher, center, student_temperature=0.1, teacher_temperature=0.04):
    """Return the cross-entropy between the teacher's and the student's outputs for different views.

    Parameters
    ----------
    student : Tensor of shape (view, batch, K)
        Outputs of the student's head for all views, starting with the views that the teacher sees.
    teacher : Tensor of shape (global view, batch, K)
        Outputs of the teacher's head, from which no gradient flows.
    center : Tensor of shape (K,)
        Running mean of the teacher's outputs, from `update_center`.
    student_temperature, teacher_temperature : float
        Temperatures that divide the outputs. By default, the teacher's is lower, so that its
        distribution is sharper.

    Returns
    -------
    0-d Tensor
        Mean over the batch and over all pairs of a teacher's view and a different student's view.

    Raises
    ------
    ShapeError
        If the shapes do not match, or no pair of different views exists.

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, Eqs. 1 to 3 and algorithm 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> views = mt.zeros(3, 2, 4)
    >>> dino_loss(views, views[:2], mt.zeros(4))  # uniform outputs: log 4
    tensor(1.3863)
    """
    _check_views(student, teacher, center)
    views, global_views, batch = student.shape[0], teacher.shape[0], student.shape[1]
    centered = (teacher.detach() - center.detach()) / teacher_temperature
    target = ops.softmax(centered, -1)  # (global view, batch, K)
    log_p = ops.log_softmax(student / student_temperature, -1)  # (view, batch, K)
    # Eq. 3 sums target * log_p over all pairs of views except those of a view with itself. The
    # sum over all pairs is the product of the sum of the targets and the sum of the log_p.
    all_pairs = (target.sum(0) * log_p.sum(0)).sum()
    same_view = (target * log_p[:global_views]).sum()
    return (same_view - all_pairs) / (global_views * (views - 1) * batch)


def _check_views(student, teacher, center):
    fits = student.ndim == teacher.ndim == 3 and student.shape[1:] == teacher.shape[1:]
    enough = fits and 1 <= teacher.shape[0] <= student.shape[0] and student.shape[0] > 1
    if not enough or center.shape != student.shape[2:]:
        raise ShapeError(
            "dino_loss: the shapes of student, teacher and center do not match",
            got=f"student {student.shape}, teacher {teacher.shape}, center {center.shape}",
            expected="(view, batch, K), (global view, batch, K) and (K,), with at least two views",
            hint="pass the student's outputs for the teacher's views first, then for the others",
        )


@names_arguments
def update_center(center, teacher, momentum=0.9):
    """Return the new center: a moving average of the teacher's mean output.

    Parameters
    ----------
    center : Tensor of shape (K,)
    teacher : Tensor of shape (..., K)
        Outputs of the teacher's head for all views and images.
    momentum : float, default 0.9

    Returns
    -------
    Tensor of shape (K,)
        `momentum * center + (1 - momentum) * mean`, where `mean` is the teacher's mean output. The
        result is detached from the graph.

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, Eq. 4.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> update_center(mt.tensor([1.0, 0.0]), mt.tensor([[3.0, 0.0], [1.0, 2.0]]), momentum=0.5)
    tensor([1.5, 0.5])
    """
    with no_grad():
        mean = teacher.reshape(-1, teacher.shape[-1]).mean(0)
        return momentum * center + (1 - momentum) * mean


@names_arguments
def update_teacher(teacher, student, momentum):
    """Move the teacher's parameters toward the student's, in place.

    Parameters
    ----------
    teacher, student : Module
        Modules with the same parameter names and shapes.
    momentum : float
        λ in `teacher = λ teacher + (1 - λ) student`. It is close to 1, and reaches 1 at the end
        of training.

    Raises
    ------
    ArgumentError
        If the parameter names or shapes differ.

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, section 3.1, "Teacher network".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> teacher, student = mt.nn.Linear(1, 1), mt.nn.Linear(1, 1)
    >>> _ = mt.nn.init.zeros_(teacher.weight), mt.nn.init.ones_(student.weight)
    >>> update_teacher(teacher, student, momentum=0.75)
    >>> teacher.weight.item()
    0.25
    """
    targets, sources = dict(teacher.named_parameters()), dict(student.named_parameters())
    shapes = [{name: p.shape for name, p in side.items()} for side in (targets, sources)]
    if shapes[0] != shapes[1]:
        names = sorted(set(shapes[0].items()) ^ set(shapes[1].items()))
        raise ArgumentError(
            "update_teacher: teacher and student have different parameters",
            got=", ".join(name for name, _ in names[:4]),
            expected="the same names and shapes in both modules",
            hint="create both with the same arguments",
        )
    with no_grad():
        for name, target in targets.items():
            target.mul_(momentum).add_(sources[name] * (1 - momentum))


@names_arguments
def cosine_schedule(step, total_steps, start, end, warmup_steps=0, warmup_start=0.0):
    """Return the value of a schedule: a linear warm-up to `start`, then a cosine curve to `end`.

    DINO uses this schedule for the learning rate, the weight decay and the teacher's momentum.

    Parameters
    ----------
    step : int
        Number of the step, counted from 0. From `total_steps` on, the value is `end`.
    total_steps : int
    start, end : float
    warmup_steps : int, default 0
    warmup_start : float, default 0
        Value at step 0 of the warm-up.

    Returns
    -------
    float

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, section 3.2, "Implementation details".

    Examples
    --------
    >>> [round(cosine_schedule(step, 4, start=0.996, end=1.0), 4) for step in range(5)]
    [0.996, 0.9966, 0.998, 0.9994, 1.0]
    """
    if step < warmup_steps:
        return _linear(step, warmup_start, start, warmup_steps)
    done = min((step - warmup_steps) / max(total_steps - warmup_steps, 1), 1.0)
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


@names_arguments
def teacher_temperature(step, start, end, warmup_steps):
    """Return the teacher's temperature: a linear warm-up from `start` to `end`, then `end`.

    Parameters
    ----------
    step, warmup_steps : int
    start, end : float

    Returns
    -------
    float

    References
    ----------
    .. [1] Caron et al. 2021, arXiv:2104.14294v2, section 3.2, "Implementation details".

    Examples
    --------
    >>> [round(teacher_temperature(step, 0.04, 0.07, warmup_steps=4), 2) for step in range(5)]
    [0.04, 0.05, 0.06, 0.07, 0.07]
    """
    return _linear(step, start, end, warmup_steps) if step < warmup_steps else end


def _linear(step, start, end, steps):
    """Return entry `step` of `linspace(start, end, steps)`."""
    return start + (end - start) * step / max(steps - 1, 1)


class DINO(nn.Module):
    """DINO's student network, teacher network and center.

    `forward` returns the loss. `update` moves the teacher's parameters toward the student's, and
    updates the center.

    Parameters
    ----------
    make_network : callable
        Function without arguments that returns a new network: a backbone with its head, which maps
        images to K outputs. It is called twice, for the student and the teacher.
    out_dim : int
        Number K of outputs.
    student_temperature : float, default 0.1
    center_momentum : float, default 0.9

    Attributes
    ----------
    student, teacher : Module
        Networks that start with the same weights. The teacher's parameters do not require
        gradients.
    center : Tensor of shape (K,)
        Moving average of the teacher's outputs, a buffer.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = DINO(lambda: mt.nn.Sequential(mt.nn.Flatten(), DINOHead(4, 5, 6, 3)), 5)
    >>> global_views, local_views = [mt.randn(7, 1, 2, 2)] * 2, [mt.randn(7, 1, 1, 4)]
    >>> loss = model(global_views, local_views)
    >>> model.update(momentum=0.99)
    """

    named_methods = None  # all public methods

    def __init__(self, make_network, out_dim, student_temperature=0.1, center_momentum=0.9):
        super().__init__()
        self.student, self.teacher = make_network(), make_network()
        self.teacher.load_state_dict(self.student.state_dict())
        for parameter in self.teacher.parameters():
            parameter.requires_grad = False
        self.student_temperature, self.center_momentum = student_temperature, center_momentum
        self.register_buffer("center", ops.zeros(out_dim))
        self.outputs = None

    def forward(self, global_views, local_views=(), temperature=0.04):
        """Compute the loss of a batch.

        Parameters
        ----------
        global_views, local_views : sequence of Tensor of shape (batch, channel, height, width)
            Large views, which both the student and the teacher see, and small views, which only the
            student sees.
        temperature : float, default 0.04
            Temperature of the teacher.

        Returns
        -------
        0-d Tensor
        """
        with no_grad():
            self.outputs = ops.stack(_by_size(self.teacher, list(global_views)), 0)
        student = ops.stack(_by_size(self.student, [*global_views, *local_views]), 0)
        return dino_loss(student, self.outputs, self.center, self.student_temperature, temperature)

    def update(self, momentum):
        """Update the teacher and the center. Call this after the optimizer's step.

        Parameters
        ----------
        momentum : float
            Momentum of the teacher; see `update_teacher`.
        """
        update_teacher(self.teacher, self.student, momentum)
        self.center = update_center(self.center, self.outputs, self.center_momentum)


def _by_size(network, views):
    """Return the outputs for all views. Views of the same size form one batch."""
    outputs = [None] * len(views)
    for size in dict.fromkeys(view.shape for view in views):
        places = [i for i, view in enumerate(views) if view.shape == size]
        parts = network(ops.cat([views[i] for i in places], 0)).split(size[0], 0)
        for place, part in zip(places, parts, strict=True):
            outputs[place] = part
    return outputs
