"""Pipeline parallelism (GPipe): each rank has some layers and sends its output to the next rank."""

from ...autograd.modes import no_grad
from ...backend.random import own_offsets, reserve_offsets
from ...distributed import (
    broadcast,
    get_rank,
    get_world_size,
    isend,
    part_slices,
    recv,
    send,
)
from ...errors import ArgumentError, ShapeError
from ...named_errors import names_arguments
from ...ops import cat, empty, zeros
from ...tensor import tensor
from ..containers import ModuleDict, Sequential
from ..module import Module

__all__ = ["GPipe", "bubble_fraction", "gpipe_schedule", "pipeline_layers"]

_DTYPES = ("float16", "float32", "float64")
_MOST_AXES = 7


@names_arguments
def gpipe_schedule(stages, micro_batches):
    r"""Return the schedule of GPipe: the task of every stage in every time slot.

    Parameters
    ----------
    stages : int
        Number N of stages.
    micro_batches : int
        Number M of micro-batches.

    Returns
    -------
    list of list
        For each stage, a list of 2 (M + N - 1) slots. A slot is ("forward", m) or ("backward", m),
        where m is the index of a micro-batch, or None if the stage is idle.

    Notes
    -----
    Stage s can compute micro-batch m one slot after stage s - 1, in slot s + m. The last forward
    pass ends after M + N - 1 slots. The backward passes follow the same schedule in reverse: they
    begin at the last stage, with the last micro-batch. Each stage works in 2 M of the slots. The
    fraction of idle slots, called the bubble, is

        1 - 2 M / (2 (M + N - 1)) = (N - 1) / (M + N - 1).

    Huang et al. 2018, arXiv:1811.06965v5, section 2.3 and Figure 2(c).

    Examples
    --------
    >>> for row in gpipe_schedule(2, 2):
    ...     print(" ".join("." if slot is None else f"{slot[0][0]}{slot[1]}" for slot in row))
    f0 f1 . . b1 b0
    . f0 f1 b1 b0 .
    """
    for name, number in (("stages", stages), ("micro_batches", micro_batches)):
        if number < 1:
            raise ArgumentError(f"gpipe_schedule: {name} must be at least 1", got=f"{number}")
    half = micro_batches + stages - 1
    rows = [[None] * (2 * half) for _ in range(stages)]
    for stage, row in enumerate(rows):
        for m in range(micro_batches):
            row[stage + m] = ("forward", m)
            row[2 * half - 1 - (stage + m)] = ("backward", m)
    return rows


@names_arguments
def bubble_fraction(schedule):
    """Return the fraction of idle slots of a schedule, among the slots of all stages.

    Examples
    --------
    >>> bubble_fraction(gpipe_schedule(4, 12))  # (4 - 1) / (12 + 4 - 1)
    0.2
    """
    slots = [slot for row in schedule for slot in row]
    return slots.count(None) / len(slots)


class GPipe(Module):
    r"""Pipeline-parallel sequence of layers: divided into stages, one for each rank.

    Parameters
    ----------
    layers : sequence of Module
        The layers of the whole model, each with one input and one output. For models such as
        `models.GPT`, see `pipeline_layers`. The parameters must be equal on all ranks, so use the
        same `mt.manual_seed`. This object keeps only the layers of its own stage. To save memory,
        the caller should delete the other layers.
    micro_batches : int
        Number M of equal parts into which a batch is divided.
    group : ProcessGroup, optional
        Default: all ranks.

    Attributes
    ----------
    stage : ModuleDict
        The layers of this rank. Their names are their indices in the whole sequence.
    schedule : list
        See `gpipe_schedule`.

    Raises
    ------
    ArgumentError
        If there are fewer layers than ranks, or fewer than one micro-batch.

    Notes
    -----
    Huang et al. 2018, arXiv:1811.06965v5. The gradient of a mean over a batch is the mean of the
    gradients of its M equal parts,

        dL/dw = (1/M) sum_m dL_m/dw,   L = (1/M) sum_m L_m,

    so the updates do not depend on M or on the number of stages. In each step, neighboring stages
    exchange M activations, M gradients and one message with the dtype and shape of an activation.

    If several stages use the same parameter, such as the tied embedding of a GPT, each of their
    ranks has a copy. `step` adds up the gradients of the copies, so the copies stay equal.

    Dropout: each layer and micro-batch has a separate range of random numbers. The dropout masks
    therefore do not depend on the number of ranks. They differ from the masks of a batch that is
    not divided into micro-batches.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layers = [mt.nn.Linear(3, 3) for _ in range(4)]
    >>> pipeline = mt.nn.parallel.GPipe(layers, micro_batches=2)  # doctest: +SKIP
    >>> loss = pipeline.step(x, targets, mt.nn.functional.mse_loss)  # doctest: +SKIP
    """

    def __init__(self, layers, micro_batches, group=None):
        super().__init__()
        layers = list(layers)
        self.group, self.rank, self.stages = group, get_rank(group), get_world_size(group)
        if len(layers) < self.stages:
            raise ArgumentError(
                "GPipe: there are fewer layers than ranks",
                got=f"{len(layers)} layers for {self.stages} ranks",
                hint=f"start at most {len(layers)} ranks",
            )
        self.micro_batches, self.layers = micro_batches, len(layers)
        self.schedule = gpipe_schedule(self.stages, micro_batches)
        cuts = part_slices(len(layers), self.stages)
        own = range(len(layers))[cuts[self.rank]]
        self.stage = ModuleDict({str(number): layers[number] for number in own})
        self._shared = _shared_parameters([layers[cut] for cut in cuts], self.rank)

    def step(self, inputs, targets, loss):
        """Compute the loss of a batch and add its gradients to `.grad`, on every rank.

        Parameters
        ----------
        inputs : Tensor of shape (batch, ...)
            Inputs of the first layer. Only the first stage reads them.
        targets : Tensor of shape (batch, ...)
            Targets of the loss. Only the last stage reads them.
        loss : callable
            Function `loss(output, target)` that returns the mean over a micro-batch.

        Returns
        -------
        float
            The mean loss, on every rank.
        """
        run = _Run(self, inputs, targets, loss)
        for slot in self.schedule[self.rank]:
            if slot is not None:
                kind, number = slot
                run.forward(number) if kind == "forward" else run.backward(number)
        run.finish()
        for parameter, stages in self._shared:
            self._sum_gradient(parameter, stages)
        total = tensor(run.total, dtype="float64")
        broadcast(total, group=self.group, group_src=self.stages - 1)
        return total.item()

    def forward(self, inputs):
        """Return the output of the last layer on the last rank, and None on the other ranks.

        The forward pass does not record an autograd graph.
        """
        with no_grad():
            run = _Run(self, inputs, None, None)
            for number in range(self.micro_batches):
                run.forward(number)
            run.finish()
        if self.rank < self.stages - 1:
            return None
        return cat([run.outputs[number] for number in range(self.micro_batches)])

    def _sum_gradient(self, parameter, stages):
        """Sum a shared parameter's gradients over `stages`, the stages that use it.

        The first of these stages computes the sum and sends it to the others.
        """
        first, *others = stages
        gradient = parameter.grad.detach()
        if self.rank != first:
            send(gradient, group=self.group, group_dst=first)
            recv(gradient, group=self.group, group_src=first)
            return
        received = empty(*gradient.shape, dtype=gradient.dtype, device=gradient.device)
        for other in others:
            recv(received, group=self.group, group_src=other)
            gradient += received
        for other in others:
            send(gradient, group=self.group, group_dst=other)


def _shared_parameters(stages, rank):
    """Return (parameter, indices of its stages) for each parameter shared with other ranks."""
    places = {}
    for number, layers in enumerate(stages):
        found = {id(p): p for layer in layers for p in layer.parameters()}
        for key, parameter in found.items():
            places.setdefault(key, (parameter, []))[1].append(number)
    return [
        (parameter, numbers)
        for parameter, numbers in places.values()
        if len(numbers) > 1 and rank in numbers
    ]


class _Run:
    """The forward and backward passes of this rank's stage for the micro-batches of one batch."""

    def __init__(self, pipeline, inputs, targets, loss):
        self.pipeline, self.loss = pipeline, loss
        self.first, self.last = pipeline.rank == 0, pipeline.rank == pipeline.stages - 1
        self.inputs = _micro_batches(inputs, pipeline.micro_batches) if self.first else {}
        if self.last and loss is not None:
            self.targets = _micro_batches(targets, pipeline.micro_batches)
        self.outputs, self.total, self.works, self.like = {}, 0.0, [], None
        self.offsets = reserve_offsets(pipeline.micro_batches * pipeline.layers)

    def forward(self, number):
        """Run the stage on one micro-batch, and send the result to the next stage."""
        if not self.first:
            self.inputs[number] = self._receive_input()
        x = self.inputs[number]
        for name, layer in self.pipeline.stage.items():
            with own_offsets(self.offsets[number * self.pipeline.layers + int(name)]):
                x = layer(x)
        if not self.last:
            self._send_output(x.detach(), number)
        elif self.loss is not None:
            x = self.loss(x, self.targets[number]) / self.pipeline.micro_batches
            self.total += x.item()
        self.outputs[number] = x

    def backward(self, number):
        """Compute one micro-batch's gradients. Send the input gradient to the previous stage."""
        output, x = self.outputs.pop(number), self.inputs.pop(number) if not self.first else None
        if self.last:
            output.backward()
        else:
            gradient = empty(*output.shape, dtype=output.dtype, device=output.device)
            recv(gradient, group=self.pipeline.group, group_src=self.pipeline.rank + 1)
            output.backward(gradient)
        if x is not None:
            self._send(x.grad, self.pipeline.rank - 1)

    def finish(self):
        """Wait until all messages have been sent."""
        for work in self.works:
            work.wait()

    def _send(self, x, stage):
        self.works.append(isend(x, group=self.pipeline.group, group_dst=stage))

    def _send_output(self, x, number):
        """Send an activation. Before the first activation of a batch, send its dtype and shape."""
        after = self.pipeline.rank + 1
        if number == 0:
            if x.dtype.name not in _DTYPES or x.ndim > _MOST_AXES:
                raise ShapeError(
                    "GPipe: the output of a stage has an unsupported dtype or too many axes",
                    got=f"{x.dtype} of shape {x.shape}",
                    expected=f"a floating-point dtype and at most {_MOST_AXES} axes",
                )
            head = [_DTYPES.index(x.dtype.name), x.ndim, *x.shape]
            head += [0] * (_MOST_AXES + 2 - len(head))
            self._send(tensor(head, dtype="int64", device=x.device), after)
        self._send(x, after)

    def _receive_input(self):
        """Return an activation received from the previous stage, as a leaf that requires grad."""
        before, group = self.pipeline.rank - 1, self.pipeline.group
        device = next((p.device for p in self.pipeline.parameters()), "cpu")
        if self.like is None:
            head = zeros(_MOST_AXES + 2, dtype="int64", device=device)
            recv(head, group=group, group_src=before)
            dtype, axes, *shape = head.tolist()
            self.like = tuple(shape[:axes]), _DTYPES[dtype]
        shape, dtype = self.like
        x = empty(*shape, dtype=dtype, device=device)
        recv(x, group=group, group_src=before)
        return x.requires_grad_(self.loss is not None)


def _micro_batches(batch, count):
    """Return {number: micro-batch} for the equal parts of a batch."""
    if len(batch) % count:
        raise ShapeError(
            "GPipe: the batch is not divisible by the number of micro-batches",
            got=f"a batch of {len(batch)} for {count} micro-batches",
            expected=f"a multiple of {count}",
            hint="drop the last, smaller batch of an epoch",
        )
    return dict(enumerate(batch.chunk(count))) if len(batch) else dict.fromkeys(range(count), batch)


class _Embedding(Module):
    """First layer of a language model. It applies the model's `embed` method and dropout."""

    def __init__(self, model):
        super().__init__()
        self.context_length = model.context_length
        self.token_embedding = model.token_embedding
        self.position_embedding = model.position_embedding
        self.dropout, self._embed = model.dropout, type(model).embed

    def forward(self, ids):
        # ids: (batch, token) -> (batch, token, embed)
        return self.dropout(self._embed(self, ids))


@names_arguments
def pipeline_layers(model):
    """Return a list of a GPT's layers for `GPipe`: the embedding, every block and the output layer.

    The output layer is a Sequential of the final norm and the head.

    Parameters
    ----------
    model : Module
        A `models.GPT`, or a model with the same attributes; or a Sequential.

    Returns
    -------
    list of Module

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.models.GPT(65, 16, embed_dim=32, num_heads=4, num_layers=6)
    >>> len(pipeline_layers(model))
    8
    """
    if isinstance(model, Sequential):
        return list(model)
    names = ("token_embedding", "position_embedding", "dropout", "blocks", "norm", "head", "embed")
    missing = [name for name in names if not hasattr(model, name)]
    if missing:
        raise ArgumentError(
            "pipeline_layers: the model is not a Sequential and does not have the layers of a GPT",
            got=f"{type(model).__name__} without {', '.join(missing)}",
            hint="pass a list of layers to GPipe",
        )
    return [_Embedding(model), *model.blocks, Sequential(model.norm, model.head)]
