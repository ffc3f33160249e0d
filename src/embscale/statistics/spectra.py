"""Effective dimensions of a set of vectors, from the eigenvalues of a covariance, and their chance levels."""

from __future__ import annotations

import numpy as np

# Points at which the Marchenko-Pastur density is evaluated; enough for six digits.
PLACES = 4096


def effective_rank(eigenvalues: np.ndarray) -> np.ndarray:
    """Exponential of the entropy of the singular values, each divided by their sum (Roy and Vetterli 2007, eq. 3).

    Args:
        eigenvalues: of a covariance (or ``X.T @ X``), ``[..., directions]``; the singular values are their roots.

    Returns:
        ``[...]``, from 1 to the number of directions; NaN if nothing varies.
    """
    singular = np.sqrt(np.clip(eigenvalues, 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = singular / singular.sum(axis=-1, keepdims=True)
        terms = np.where(share == 0, 0.0, share * np.log(share))
    return np.exp(-terms.sum(axis=-1))


def participation_ratio(eigenvalues: np.ndarray) -> np.ndarray:
    """Squared sum of the variances over the sum of their squares (Gao et al. 2017, eq. 5); NaN if nothing varies."""
    variances = np.clip(eigenvalues, 0, None)
    with np.errstate(invalid="ignore", divide="ignore"):
        return variances.sum(axis=-1) ** 2 / np.square(variances).sum(axis=-1)


def isotropic(vectors: int, width: int) -> dict[str, float]:
    """Both measures for the same number of isotropic Gaussian vectors.

    The eigenvalues of their sample covariance follow Marchenko and Pastur's law (1967), so even then, a small sample
    seems to spread over fewer directions than there are.

    Args:
        vectors: number of independent vectors.
        width: dimensions of each.

    Returns:
        ``effective_rank`` and ``participation_ratio``.
    """
    few, many = sorted((vectors, width))
    ratio = few / many
    angle = (np.arange(PLACES) + 0.5) * np.pi / PLACES
    value = 1 + ratio + 2 * np.sqrt(ratio) * np.cos(angle)
    density = np.sin(angle) ** 2 / value
    density /= density.sum()
    singular = np.sqrt(value)
    mean = density @ singular
    entropy = np.log(few * mean) - (density @ (singular * np.log(singular))) / mean
    return {
        "effective_rank": float(np.exp(entropy)),
        "participation_ratio": float(few * (density @ value) ** 2 / (density @ value**2)),
    }
