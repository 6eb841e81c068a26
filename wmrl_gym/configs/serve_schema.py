"""The typed shape of `wmrl serve`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from wmrl_gym.configs.schema import ExecutionConfig, TasksConfig
from wmrl_gym.configs.validation import Component


@dataclass(frozen=True)
class ServiceLimits:
    """What one service takes on at the same time, and how long it lets anybody wait."""

    queue: int = 1024
    """Trajectories under way at the same time, waiting ones included; more are answered 429."""
    requests: int = 4096
    """Requests open at the same time; more are answered 429."""
    body_bytes: int = 16_777_216
    """Size of a request; a larger one is answered 413."""
    body_seconds: float = 30.0
    """Time in which a request must have arrived."""
    groups: int = 1024
    """Groups of one step."""
    members: int = 256
    """Answers of one group."""
    prediction_batch: int = 32
    """Submissions that the world model is asked about in one call, if so many wait."""
    request_seconds: float = 300.0
    """After so long a request is answered 503. Its work goes on, and the same request asked again waits for it."""
    shutdown_seconds: float = 30.0
    """How long a stop waits for what runs; requests that wait longer are answered 503."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for item in fields(self):
            value = getattr(self, item.name)
            if not value > 0:
                raise ValueError(f"limits.{item.name} is {value}: give more than 0")
        if self.members > self.queue:
            raise ValueError(
                f"limits.members is {self.members}, limits.queue {self.queue}: a whole group must fit into the queue"
            )


@dataclass(frozen=True)
class ServeConfig:
    """All of `wmrl serve`. What an experiment says of the policy and of training is not read."""

    env: Component
    """Forms submissions, and executes them; its actions are text."""
    tasks: TasksConfig
    """Those of `train` and of `held_out` are served."""
    proxy: Component
    """Anchors, debiasing, fusion."""
    execution: ExecutionConfig
    """See the section execution; `mode` has no meaning here."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    """See the section limits."""
    world_model: Component | None = None
    """None: nothing is predicted, so everything must be executed."""
    state: Path = Path("proxy_state")
    """Folder of the journal, on a local disk. With what is in it a service goes on where it was."""
    host: str = "127.0.0.1"
    """Address to listen on. Any other than the machine's own loopback needs a token."""
    port: int = 8080
    """Port to listen on; 0 takes a free one."""
    token_file: Path | None = None
    """File with the token that callers give; None takes it from the environment variable ``WMRL_SERVE_TOKEN``, and
    without that asks for none."""
    normalise_by_std: bool = False
    """Also divide centred rewards by their group's standard deviation."""
    seed: int = 0
    """Of the draw of anchors."""
    threads: int | None = None
    """torch threads; None is 1, because scripts run beside the world model."""

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        if not 0 <= self.port < 65536:
            raise ValueError(f"port is {self.port}: give 0 to 65535")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads is {self.threads}: give at least 1, or null")
