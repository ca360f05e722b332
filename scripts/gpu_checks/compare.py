"""How far two results are apart, and whether that is near enough."""

from collections.abc import Sequence
from typing import Any

import torch

from gpu_checks.case import CaseError
from whitedwarf.ops.base import RowFormat
from whitedwarf.ops.twins.rows import decode_rows

EXACT = 1e-5  # f32 in another order
ROUNDED = 6e-3  # inputs of a product rounded to bf16
MANY_ROWS = 16
SAME_PICKS = 0.995  # share of numbers that must be equal where near scores may be ordered otherwise
SAME_STORED = 0.97  # numbers of stored rows: one between two may be rounded to either
STORED = 2e-2  # and what that makes of a row


def tolerance(num_rows: int) -> float:
    return EXACT if num_rows < MANY_ROWS else ROUNDED


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest of any row, of the norm of its result; infinite where a number is missing."""
    if actual.shape != expected.shape:
        raise CaseError(f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}")
    if actual.numel() == 0:
        return 0.0
    one, other = (x.double().reshape(len(x), -1) for x in (actual, expected))
    norms = other.norm(dim=1).clamp_min(1e-30)
    error = float(((one - other).norm(dim=1) / norms).max())
    return error if error == error else float("inf")


def check_all(
    actual: Sequence[Any], expected: Sequence[Any], limit: float, format: RowFormat | None = None
) -> dict[str, Any]:
    """Floats within `limit`; whole numbers nearly all equal; stored rows of `format` decoded and nearly all equal."""
    errors, shares = [0.0], [1.0]
    for one, other in zip(actual, expected, strict=True):
        if one is None or other is None:
            if one is not other:
                raise CaseError("one backend has a result where the other has none")
        elif one.dtype.is_floating_point:
            errors.append(relative_error(one, other))
        elif one.dtype == torch.uint8 and format is not None:
            shares.append(_check_stored(one, other, format))
        else:
            shares.append(_same_share(one, other, SAME_PICKS))
    figures = {"error": max(errors), "limit": limit, "same": min(shares)}
    if not max(errors) <= limit:
        raise CaseError(f"relative error {max(errors):.2e}, at most {limit:.0e} expected", **figures)
    return figures


def _check_stored(one: torch.Tensor, other: torch.Tensor, format: RowFormat) -> float:
    """The share of numbers that are the same but for the last bits."""
    if not len(other):
        return 1.0
    actual, expected = decode_rows(one, format), decode_rows(other, format)
    error = relative_error(actual, expected)
    share = float(torch.isclose(actual, expected, EXACT, EXACT).double().mean())
    if not error <= STORED or share < SAME_STORED:
        raise CaseError(
            f"stored rows: {share:.1%} of the numbers are the same, error {error:.2e}", error=error, same=share
        )
    return share


def _same_share(one: torch.Tensor, other: torch.Tensor, least: float) -> float:
    if one.shape != other.shape:
        raise CaseError(f"shape {tuple(one.shape)}, expected {tuple(other.shape)}")
    share = float((one == other).double().mean()) if one.numel() else 1.0
    if share < least:
        raise CaseError(f"{share:.1%} of the numbers are equal, at least {least:.1%} expected", same=share)
    return share
