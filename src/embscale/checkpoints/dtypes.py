"""Data types of stored values: their names in the safetensors format, their sizes, and how they are read."""

from __future__ import annotations

import numpy as np

# How to read each dtype in which a checkpoint may store a table.  numpy has no bfloat16: its bits are read as integers.
STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def to_float32(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Values as float32; the bits of a bfloat16 are the upper half of a float32."""
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)


def round_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 values to the nearest bfloat16, ties to even (IEEE 754, 4.3.1).

    Values beyond bfloat16's largest number, 3.39e38, become infinity.
    """
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


# Bytes per value, by safetensors name of the dtype.
ITEM_SIZES = (
    dict.fromkeys(("F64", "I64", "U64", "C64"), 8)
    | dict.fromkeys(("F32", "I32", "U32"), 4)
    | dict.fromkeys(("F16", "BF16", "I16", "U16"), 2)
    | dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"), 1)
)
