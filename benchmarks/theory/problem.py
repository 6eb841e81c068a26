"""A gradient-dominated problem whose every constant is known: quadratic rewards of four tasks, one Gaussian policy.

The policy draws an action a ~ N(θ, s² I). Task k rewards it with r = -d_k - ½ (a - t_k)ᵀ H (a - t_k): a target t_k, a
difficulty d_k below which no action gets, and a common curvature H. The tasks want different things, so the best θ is a
compromise, and a score that is steeper for some tasks than for others pulls the policy away from it. On a single such
task nothing of the kind could be seen: by symmetry a monotone distortion leaves the best θ where it is.

J(θ) = J* - ½ (θ - θ*)ᵀ H (θ - θ*) up to the policy's own spread, so smoothness L and domination μ (‖∇J‖² ≥ 2μ(J* - J))
are the largest and the smallest curvature, and M² = E‖∇ log π‖² = dim / s². (A Gaussian's score is unbounded: M is its
root mean square, which is what the theory's second-moment arguments need.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QuadraticTasks:
    """Tasks that share a Gaussian policy. Shapes: K tasks, actions of D numbers."""

    targets: FloatArray
    """Best action of each task, shape (K, D)."""
    difficulty: FloatArray
    """How far below 0 each task's best score lies, shape (K,)."""
    curvature: FloatArray
    """Diagonal of H, shape (D,)."""
    spread: float
    """Standard deviation s of the policy, the same in every direction and not learned."""
    execution_noise: float
    """Standard deviation of an executed score around the truth: the same submission scores differently twice."""

    @property
    def n_tasks(self) -> int:
        return len(self.targets)

    @property
    def smoothness(self) -> float:
        """L."""
        return float(self.curvature.max())

    @property
    def domination(self) -> float:
        """μ."""
        return float(self.curvature.min())

    @property
    def score_norm_squared(self) -> float:
        """M² = E‖∇ log π‖²."""
        return len(self.curvature) / self.spread**2

    @property
    def optimum(self) -> FloatArray:
        """θ*, shape (D,)."""
        return self.targets.mean(axis=0)

    def truth(self, task: NDArray[np.int64] | int, actions: FloatArray) -> FloatArray:
        """Mean score of actions, shape (..., D) to (...); ``task`` is one for all, or of a shape that broadcasts."""
        away = actions - self.targets[task]
        return -self.difficulty[task] - 0.5 * (away**2) @ self.curvature

    def execute(self, rng: np.random.Generator, truth: FloatArray) -> FloatArray:
        """Executed scores."""
        return truth + self.execution_noise * rng.standard_normal(truth.shape)

    def gap(self, theta: FloatArray) -> FloatArray:
        """J* - J(θ), shape (..., D) to (...)."""
        return 0.5 * ((theta - self.optimum) ** 2) @ self.curvature


def standard_problem(execution_noise: float = 0.3) -> QuadraticTasks:
    """Two easy tasks on the left, two hard ones on the right; L = 1, μ = 0.5, M² = 12.5."""
    return QuadraticTasks(
        targets=np.array([[-1.0, 0.5], [-1.0, -0.5], [1.0, 0.5], [1.0, -0.5]]),
        difficulty=np.array([0.0, 0.1, 0.8, 1.2]),
        curvature=np.array([1.0, 0.5]),
        spread=0.4,
        execution_noise=execution_noise,
    )
