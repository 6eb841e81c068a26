"""The typed shape of the configurations of `wmrl corpus` and `wmrl fidelity`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wmrl_gym.configs.schema import ExecutionConfig, TasksConfig
from wmrl_gym.configs.validation import Component


@dataclass(frozen=True)
class AgentConfig:
    """How the policy takes part as an author."""

    name: str = "agent"
    """What it is called among the authors."""
    temperatures: list[float] = field(default_factory=lambda: [1.0])
    """Each of its episodes is played at one of these."""
    revised: float = 0.5
    """Share of its episodes that go on after the first answer, to the environment's last turn."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not self.temperatures or min(self.temperatures) < 0:
            raise ValueError(f"agent.temperatures is {self.temperatures}: give at least one, 0 (greedy) or more")
        if not 0 <= self.revised <= 1:
            raise ValueError(f"agent.revised is {self.revised}: give a share from 0 to 1")


@dataclass(frozen=True)
class CorpusConfig:
    """All of `wmrl corpus`."""

    env: Component
    """What is played."""
    tasks: TasksConfig
    """See the section tasks."""
    execution: ExecutionConfig
    """See the section execution."""
    authors: dict[str, float]
    """Author -> share of the episodes, which need not add up to 1; "agent" is the policy."""
    agent: AgentConfig
    """See the section agent."""
    policy: Component | None = None
    """The agent; None where no share is its."""
    output: Path = Path("solutions.jsonl.gz")
    """File that is written."""
    count: int = 500
    """Different scripts that are wanted."""
    confirm_timeouts: int = 2
    """How often a timeout must repeat, executed alone, to be believed."""
    seed: int = 0
    """Of everything that is random."""
    threads: int | None = 1
    """torch threads; None is all cores."""

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        for name, share in self.authors.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or share < 0:
                raise ValueError(f"authors.{name} is {share!r}: give a share, 0 or more")
        if sum(self.authors.values()) <= 0:
            raise ValueError("authors has no share above 0: somebody must write")
        if self.authors.get("agent", 0) > 0 and self.policy is None:
            raise ValueError("authors.agent has a share, but policy is null: choose one, or authors.agent=0")
        if self.count < 1:
            raise ValueError(f"count is {self.count}: give at least 1")
        if self.confirm_timeouts < 0:
            raise ValueError(f"confirm_timeouts is {self.confirm_timeouts}: give 0 or more")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}: give 0 or more")


@dataclass(frozen=True)
class FidelityConfig:
    """All of `wmrl fidelity`."""

    env: Component
    """What the solutions were executed in."""
    tasks: TasksConfig
    """See the section tasks."""
    corpus: list[Path] | Path
    """One file of `wmrl corpus`, or several that are taken together."""
    world_model: Component | None
    """Which world model is measured."""
    output: Path = Path("fidelity")
    """Folder for the predictions and the report."""
    name: str | None = None
    """What the world model is called in the report; None is its class."""
    batch: int = 10
    """Scripts predicted at the same time; what they cost is divided evenly among them."""
    limit: int | None = None
    """Only the first so many solutions."""
    seed: int = 0
    """Of the resampling, and of the halves that the debiaser is fitted and measured on."""
    resamples: int = 1000
    """Bootstrap samples behind an interval."""
    level: float = 0.95
    """Of the confidence intervals."""
    plot: bool = True
    """Draw the charts, too."""

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        if self.world_model is None:
            raise ValueError("world_model is null: choose one, for example world_model=static_analysis")
        for name in ("batch", "limit", "resamples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: give at least 1")
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}: give a share between 0 and 1, for example 0.95")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}: give 0 or more")

    @property
    def corpora(self) -> list[Path]:
        """The files, as a list."""
        return [self.corpus] if isinstance(self.corpus, Path) else self.corpus
