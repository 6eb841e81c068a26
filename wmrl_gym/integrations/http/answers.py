"""What the service answers. Its JSON has these fields, and its client returns these types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What one trajectory is worth."""

    step: int
    group: str
    member: int | None
    """As given; None where the answer's content stood for it."""
    reward: float | None
    """The executed score of an anchor, else the calibrated prediction. None is unknown, and must teach nothing."""
    predicted: float | None
    """What the world model said, as it said it."""
    executed: float | None
    """None unless this is an anchor whose execution came to a score."""
    is_anchor: bool
    propensity: float
    """Probability with which this group was to be an anchor."""
    status: str
    """One word for what happened, or is predicted to."""
    feedback: str
    """What an agent may be told."""


@dataclass(frozen=True)
class GroupDraw:
    """Whether one group is executed."""

    group: str
    is_anchor: bool
    propensity: float


@dataclass(frozen=True)
class StepDraw:
    """The anchors of a step."""

    step: int
    groups: list[GroupDraw]


@dataclass(frozen=True)
class MemberOutcome:
    """What came of one answer of a group, before anything was learned from it."""

    predicted: float | None
    executed: float | None
    status: str
    feedback: str


@dataclass(frozen=True)
class GroupOutcomes:
    """What came of the answers of one group, in their order."""

    step: int
    group: str
    is_anchor: bool
    members: list[MemberOutcome]


@dataclass(frozen=True)
class GroupScores:
    """What one group teaches."""

    group: str
    is_anchor: bool
    propensity: float
    weight: float
    dropped: bool
    """Fewer than two members have a score, so nothing can be compared."""
    rewards: list[float | None]
    advantages: list[float | None]
    """Weight times centred reward; None where nothing is known, which must teach nothing."""


@dataclass(frozen=True)
class StepScores:
    """What a step teaches, its groups in the order in which they were declared."""

    step: int
    groups: list[GroupScores]
    metrics: dict[str, float | None]
    """`RewardProxy.metrics` after this step."""


@dataclass(frozen=True)
class ServiceState:
    """Where the service stands."""

    step: int
    """Number of the step that is open, or is to be opened next."""
    groups: list[str] | None
    """Groups of the open step; None if it is not open."""
    missing: list[str]
    """Those of them that were not handed in."""
    metrics: dict[str, float | None]
    """`RewardProxy.metrics`."""


@dataclass(frozen=True)
class Problem:
    """Why a request was refused."""

    error: str
    """One word for it."""
    detail: str
    """What was wrong, where, what to do."""
