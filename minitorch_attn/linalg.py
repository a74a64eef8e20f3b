"""Linear algebra: the norms of vectors and matrices, named as in `torch.linalg`."""

from .absent_names import absent as _absent
from .named_errors import under_name
from .ops import matrix_norm as _matrix
from .ops import vector_norm as _vector
from .ops.plumbing.keyword_names import with_other_names

__all__ = ["matrix_norm", "norm", "vector_norm"]

matrix_norm = with_other_names(_matrix.matrix_norm)
norm = with_other_names(under_name("norm", _matrix.linalg_norm))
vector_norm = with_other_names(_vector.vector_norm)

__getattr__ = _absent(__name__)
