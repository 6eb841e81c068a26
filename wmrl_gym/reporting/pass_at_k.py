"""pass@k and All@k: of k attempts at a task, at least one succeeds, or every one.

Both are estimated without bias from n >= k attempts of which c succeeded (pass@k: Chen et al. 2021, "Evaluating Large
Language Models Trained on Code"): the share of all subsets of k attempts that hold a success, or nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def pass_at_k(attempts: int, successes: int, k: int) -> float | None:
    """``1 - C(n - c, k) / C(n, k)``; None if there are fewer than k attempts.

    Raises:
        ValueError: for numbers that make no sense.
    """
    _check(attempts, successes, k)
    return None if k > attempts else 1.0 - comb(attempts - successes, k) / comb(attempts, k)


def all_at_k(attempts: int, successes: int, k: int) -> float | None:
    """``C(c, k) / C(n, k)``; None if there are fewer than k attempts.

    Raises:
        ValueError: for numbers that make no sense.
    """
    _check(attempts, successes, k)
    return None if k > attempts else comb(successes, k) / comb(attempts, k)


def curve(succeeded: Sequence[bool]) -> dict[int, tuple[float, float]]:
    """(pass@k, All@k) of one task for every k from 1 to the number of its attempts."""
    n, c = len(succeeded), sum(succeeded)
    return {k: (1.0 - comb(n - c, k) / comb(n, k), comb(c, k) / comb(n, k)) for k in range(1, n + 1)}


def _check(attempts: int, successes: int, k: int) -> None:
    if k < 1 or not 0 <= successes <= attempts:
        raise ValueError(
            f"{successes} successes of {attempts} attempts at k={k}: give 0 <= successes <= attempts, k >= 1"
        )
