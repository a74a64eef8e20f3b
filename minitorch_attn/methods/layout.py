"""Methods for other shapes and for parts.

Each is one line that calls the operation of that name.
"""

from . import knot
from .arguments import as_shape

__all__ = ["Layout"]


class Layout:
    """PyTorch's method names; the documentation is at the functions in `ops/`."""

    __slots__ = ()

    # Shape

    def reshape(self, *shape):
        return knot.ops.reshape(self, as_shape(shape))

    def reshape_as(self, other):
        return knot.ops.reshape(self, other.shape)

    def view(self, *shape):
        return knot.ops.view(self, *shape)

    def view_as_alias(self):
        return knot.ops.alias(self)

    def permute(self, *dims):
        return knot.ops.permute(self, as_shape(dims))

    def transpose(self, dim0, dim1):
        return knot.ops.transpose(self, dim0, dim1)

    def swapaxes(self, axis0, axis1):
        return knot.ops.transpose(self, axis0, axis1)

    def movedim(self, source, destination):
        return knot.ops.movedim(self, source, destination)

    def t(self):
        return knot.ops.t(self)

    def flatten(self, start_dim=0, end_dim=-1):
        return knot.ops.flatten(self, start_dim, end_dim)

    def unflatten(self, dim, sizes):
        return knot.ops.unflatten(self, dim, sizes)

    def squeeze(self, dim=None):
        return knot.ops.squeeze(self, dim)

    def unsqueeze(self, dim):
        return knot.ops.unsqueeze(self, dim)

    def expand(self, *sizes):
        return knot.ops.expand(self, as_shape(sizes))

    def expand_as(self, other):
        return knot.ops.expand(self, other.shape)

    def broadcast_to(self, size):
        return knot.ops.broadcast_to(self, size)

    def repeat(self, *sizes):
        return knot.ops.repeat(self, as_shape(sizes))

    def repeat_interleave(self, repeats, dim=None):
        return knot.ops.repeat_interleave(self, repeats, dim)

    def tile(self, *dims):
        return knot.ops.tile(self, as_shape(dims))

    def flip(self, *dims):
        return knot.ops.flip(self, as_shape(dims))

    def roll(self, shifts, dims=None):
        return knot.ops.roll(self, shifts, dims)

    def split(self, split_size_or_sections, dim=0):
        return knot.ops.split(self, split_size_or_sections, dim)

    def hsplit(self, indices_or_sections):
        return knot.ops.hsplit(self, indices_or_sections)

    def vsplit(self, indices_or_sections):
        return knot.ops.vsplit(self, indices_or_sections)

    def chunk(self, chunks, dim=0):
        return knot.ops.chunk(self, chunks, dim)

    def unbind(self, dim=0):
        return knot.ops.unbind(self, dim)

    def narrow(self, dim, start, length):
        return knot.ops.narrow(self, dim, start, length)

    def select(self, dim, index):
        return knot.ops.select(self, dim, index)

    def diagonal(self, offset=0, dim1=0, dim2=1):
        return knot.ops.diagonal(self, offset, dim1, dim2)

    def tril(self, diagonal=0):
        return knot.ops.tril(self, diagonal)

    def triu(self, diagonal=0):
        return knot.ops.triu(self, diagonal)

    def unfold(self, dimension, size, step):
        return knot.ops.sliding_windows(self, dimension, size, step)

    def ravel(self):
        return knot.ops.ravel(self)

    def view_as(self, other):
        return knot.ops.view(self, other.shape)

    def moveaxis(self, source, destination):
        return knot.ops.moveaxis(self, source, destination)

    def swapdims(self, dim0, dim1):
        return knot.ops.transpose(self, dim0, dim1)

    def diag(self, diagonal=0):
        return knot.ops.diag(self, diagonal)

    def diag_embed(self, offset=0, dim1=-2, dim2=-1):
        return knot.ops.diag_embed(self, offset, dim1, dim2)

    def fliplr(self):
        return knot.ops.fliplr(self)

    def flipud(self):
        return knot.ops.flipud(self)

    def rot90(self, k=1, dims=(0, 1)):
        return knot.ops.rot90(self, k, dims)

    def tensor_split(self, indices_or_sections, dim=0):
        return knot.ops.tensor_split(self, indices_or_sections, dim)

    # Indexing

    def gather(self, dim, index):
        return knot.ops.gather(self, dim, index)

    def scatter(self, dim, index, src):
        return knot.ops.scatter(self, dim, index, src)

    def scatter_add(self, dim, index, src):
        return knot.ops.scatter_add(self, dim, index, src)

    def index_select(self, dim, index):
        return knot.ops.index_select(self, dim, index)

    def index_add(self, dim, index, source, *, alpha=1):
        return knot.ops.index_add(self, dim, index, source, alpha=alpha)

    def index_put(self, indices, values, accumulate=False):
        return knot.ops.index_put(self, indices, values, accumulate)

    def take_along_dim(self, indices, dim=None):
        return knot.ops.take_along_dim(self, indices, dim)

    def masked_select(self, mask):
        return knot.ops.masked_select(self, mask)

    def nonzero(self, *, as_tuple=False):
        return knot.ops.nonzero(self, as_tuple=as_tuple)

    def index_copy(self, dim, index, source):
        return knot.ops.index_copy(self, dim, index, source)

    def index_fill(self, dim, index, value):
        return knot.ops.index_fill(self, dim, index, value)

    def argwhere(self):
        return knot.ops.argwhere(self)

    # Sizes

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return self.array.ndim

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def is_floating_point(self):
        return self.array.dtype.kind == "f"
