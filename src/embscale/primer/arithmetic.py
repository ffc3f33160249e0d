"""Which arithmetic on word vectors means anything: that which does not depend on the choice of coordinates."""

from __future__ import annotations

import numpy as np


def in_basis(operation: np.ufunc, x: np.ndarray, y: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """An element-wise operation on two vectors in the coordinates of another basis, the result in the first again.

    Sums and differences are the same in every basis, as are lengths and angles.  Element-wise products and quotients
    are not, and a quotient does not exist where a coordinate is 0: they are no operations of a vector space.

    Args:
        operation: such as ``np.add`` or ``np.multiply``.
        x: ``[dims]``.
        y: ``[dims]``.
        basis: orthonormal, its vectors in columns, ``[dims, dims]``.

    Returns:
        ``[dims]``.
    """
    found: np.ndarray = operation(x @ basis, y @ basis) @ basis.T
    return found
