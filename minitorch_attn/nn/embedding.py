"""Embedding: look up a row of a learned table for each id, or sum the rows of a bag of ids."""

from .. import ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError, ShapeError
from ..ops.plumbing.tensor_arguments import as_operand
from . import init
from .checks import check_sizes
from .module import Module
from .parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """Embedding table with one learned vector for each of `num_embeddings` ids.

    Parameters
    ----------
    num_embeddings : int
        Size of the vocabulary.
    embedding_dim : int
        Length of each vector.
    padding_idx : int, optional
        Row for the padding token. The row is initialized with zeros and does not get a gradient.
    max_norm : float, optional
        Maximum norm of a row. Rows with a larger norm are scaled down in place when they are looked
        up.
    norm_type : float, default 2
        Order p of the norm that `max_norm` limits.
    scale_grad_by_freq : bool
        Whether to divide a row's gradient by the number of times that its id occurs in the batch.
    sparse : bool
        Accepted for compatibility with PyTorch. Gradients are always dense.
    _weight : Tensor of shape (num_embeddings, embedding_dim), optional
        Initial table. Default: sampled from N(0, 1).
    device, dtype : optional
        Device and dtype of the table.

    Attributes
    ----------
    weight : Parameter of shape (num_embeddings, embedding_dim)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> table = mt.nn.Embedding(11, 3, padding_idx=0)
    >>> table(mt.tensor([[4, 0]]))[0, 1].detach()
    tensor([0., 0., 0.])
    """

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = self._checked_padding(padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            table = ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise ShapeError(
                    "Embedding: _weight has the wrong shape",
                    got=f"{tuple(_weight.shape)}",
                    expected=f"(num_embeddings, embedding_dim) = {(num_embeddings, embedding_dim)}",
                    hint="use Embedding.from_pretrained(_weight), which infers both sizes",
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def _checked_padding(self, padding_idx):
        size = self.num_embeddings
        if padding_idx is not None and not -size <= padding_idx < size:
            raise ArgumentError(
                "Embedding: padding_idx is out of range",
                got=f"{padding_idx} for {size} embeddings",
                expected=f"an id from {-size} to {size - 1}",
                hint="count the padding token in num_embeddings, or use padding_idx=None",
            )
        return padding_idx if padding_idx is None else padding_idx % size

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, **options):
        """Create an Embedding from a given table.

        Parameters
        ----------
        embeddings : Tensor of shape (num_embeddings, embedding_dim)
        freeze : bool, default True
            Whether the table is excluded from training.
        **options
            Further arguments of `Embedding`.
        """
        embeddings = as_operand(embeddings, f"{cls.__name__}.from_pretrained", "embeddings")
        return cls(*embeddings.shape, _weight=embeddings, _freeze=freeze, **options)

    def reset_parameters(self):
        """Sample a new table from N(0, 1), with zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input):
        # input: (...) of ids -> (..., embedding_dim)
        return ops.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self):
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        defaults = {"padding_idx": None, "max_norm": None, "norm_type": 2.0}
        defaults |= {"scale_grad_by_freq": False, "sparse": False}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


class EmbeddingBag(Embedding):
    """Sum, mean or maximum of the embeddings of each bag of ids; see `embedding_bag`.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Size of the vocabulary, and length of each vector.
    max_norm, norm_type, scale_grad_by_freq, sparse, _weight, padding_idx, device, dtype
        Options of `Embedding`.
    mode : {"mean", "sum", "max"}
    include_last_offset : bool, default False
        Whether `offsets` has an additional last element, which is the number of ids.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.EmbeddingBag(11, 3)(mt.tensor([4, 0, 7]), mt.tensor([0, 2])).shape
    (2, 3)
    """

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None,
        include_last_offset=False, padding_idx=None, device=None, dtype=None, _freeze=False,
    ):  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, _freeze, device, dtype,
        )  # fmt: skip
        if not isinstance(mode, str) or mode not in ("mean", "sum", "max"):
            raise ArgumentError(
                "EmbeddingBag: mode is unknown",
                got=f"{mode!r:.60}",
                expected="'mean', 'sum' or 'max'",
            )
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input, offsets=None, per_sample_weights=None):
        # input: (bag, id), or (id,) with offsets (bag,) -> (bag, embedding_dim)
        return ops.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self):
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        defaults = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        for name, default in {**defaults, "mode": None, "padding_idx": None}.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(parts)
