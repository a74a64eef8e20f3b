"""Embedding: a row of a table for each token id."""

from .. import ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError, ShapeError
from . import init
from .checks import check_sizes
from .module import Module
from .parameter import Parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """A table with one learned vector for each of `num_embeddings` ids.

    Parameters
    ----------
    num_embeddings : int
        Size of the vocabulary.
    embedding_dim : int
        Length of each vector.
    padding_idx : int, optional
        The row that starts as zeros and never gets a gradient.
    max_norm : float, optional
        Rows that are looked up are first scaled down, in place, to at most this norm.
    norm_type : float, default 2
        Which norm `max_norm` means.
    scale_grad_by_freq : bool
        Divide the gradient of a row by how often its id occurs in the batch.
    sparse : bool
        Accepted for PyTorch's sake; gradients here are always dense.
    _weight : Tensor of shape (num_embeddings, embedding_dim), optional
        The table to start with, instead of N(0, 1).
    device, dtype : optional
        Of the table.

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
                    "Embedding(_weight=): the table has another shape.",
                    got=f"{tuple(_weight.shape)}",
                    expected=f"(num_embeddings, embedding_dim) = {(num_embeddings, embedding_dim)}",
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def _checked_padding(self, padding_idx):
        size = self.num_embeddings
        if padding_idx is not None and not -size <= padding_idx < size:
            raise ArgumentError(
                "Embedding(padding_idx): no row of the table.",
                got=f"{padding_idx} for {size} embeddings",
                expected=f"an id from {-size} to {size - 1}",
            )
        return padding_idx if padding_idx is None else padding_idx % size

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, **options):
        """An Embedding around a given table.

        Parameters
        ----------
        embeddings : Tensor of shape (num_embeddings, embedding_dim)
        freeze : bool, default True
            Whether the table is left out of training.
        **options
            Further arguments of `Embedding`.
        """
        return cls(*embeddings.shape, _weight=embeddings, _freeze=freeze, **options)

    def reset_parameters(self):
        """Draw the table anew from N(0, 1), with zeros in the padding row."""
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
