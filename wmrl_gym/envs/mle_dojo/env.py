"""MLE-Dojo as a Gymnasium environment: an agent answers in text, its scripts are executed and graded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import gymnasium as gym

from wmrl_gym.core import SCORE, DataFolder, ExpensiveRewardEnv, Measure, Outcome, Submission
from wmrl_gym.envs.mle_dojo.actions import Action, parse_action
from wmrl_gym.envs.mle_dojo.competition import Competition, CompetitionError
from wmrl_gym.envs.mle_dojo.feedback import clip_middle, render_feedback
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.envs.mle_dojo.overview_text import OverviewStyle, render_inventory, render_overview
from wmrl_gym.envs.mle_dojo.prompts import first_message, next_message
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner, ScoreKind
from wmrl_gym.envs.unicode_text import UnicodeText

if TYPE_CHECKING:
    from wmrl_gym.execution.limits import SandboxLimits

RewardKind = Literal["improvement", "score"]
MAX_ACTION_CHARS = 200_000
MAX_OBSERVATION_CHARS = 100_000


class MLEDojoEnv(ExpensiveRewardEnv[str, str]):
    """One machine-learning competition, or one of several, played in up to `max_turns` turns.

    ## Observation
    Text: at first the competition's overview (with instructions, in the full style), then feedback on the last answer.

    ## Action
    Text: a fenced ```python block is executed, ``<action>request_info</action>`` lists the data files, anything else
    is malformed and scores as no code. A script finds its data in DATA_DIR and writes to SUBMISSION_PATH.

    ## Reward
    By default the improvement of the best score so far, so that an episode's return is its best score: the
    trajectory's score of the paper. With ``reward="score"`` each turn's own score. A turn without a submission is
    worth 0; an unknown score gives NaN. Scores come from the reward ladder.

    ## End
    After `max_turns` turns, of whatever kind. The limit is part of the task, so the episode is then *terminated*.

    ## Info
    "competition", "turn", and after a step "status", "score", "percentile" (each None if there is none), "best_score",
    and "outcome" if the environment judged the answer by itself.

    Args:
        competition: name of a competition in the data root, or several, of which each episode plays one:
            ``reset(options={"competition": name})`` chooses, else the seed does. None: all that are prepared; where
            none is, the bundled ones are prepared first.
        data_root: folder of prepared competitions in MLE-Dojo's layout. Default: $WMRL_DATA_ROOT, else
            ``~/.cache/wmrl_gym/competitions``.
        max_turns: turns of an episode.
        overview_style: "full" for large language models; "compact" for the nano agent, feedback included.
        overview_chars: length limit of the overview; None is the style's own (8000 or 600).
        feedback_chars: length limit of the feedback, which keeps head and tail.
        reward: "improvement" or "score".
        score: "percentile" of the leaderboard, or "raw" for the metric itself where there is no leaderboard.
        ladder: scores of the rungs, also as a mapping.
        sandbox_limits: what a script may spend, also as a mapping; None is the sandbox's default.
        sandbox_start: "warm" forks each script from a process that has the scientific stack imported: many times faster
            than a "fresh" interpreter, in the same isolation.
        competitions_dir: ``mledojo/competitions`` of a check-out of MLE-Dojo, for metrics and leaderboards that are
            not beside the data.
        runner: executes submissions instead of a `CompetitionRunner` with the settings above.
        render_mode: "ansi" to get the episode's transcript from `render`.

    Raises:
        CompetitionError: if a competition cannot be loaded.
        ValueError: for settings that make no sense.
    """

    measures: ClassVar[tuple[Measure, ...]] = (Measure("percentile", is_share=True, is_graded=True), SCORE)
    success_status = Status.VALID.value
    runner_class: ClassVar[type[CompetitionRunner]] = CompetitionRunner
    """Loads the competitions, and executes submissions to them."""
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(
        self,
        competition: str | Sequence[str] | None = None,
        data_root: str | Path | None = None,
        max_turns: int = 4,
        overview_style: OverviewStyle = "full",
        overview_chars: int | None = None,
        feedback_chars: int = 2000,
        reward: RewardKind = "improvement",
        score: ScoreKind = "percentile",
        ladder: RewardLadder | Mapping[str, float] | None = None,
        sandbox_limits: SandboxLimits | Mapping[str, float] | None = None,
        sandbox_start: Literal["fresh", "warm"] = "fresh",
        competitions_dir: str | Path | None = None,
        runner: Callable[[Submission], Outcome] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Load the competitions; nothing runs yet."""
        _check_settings(max_turns, overview_style, feedback_chars, reward, render_mode)
        _check_choice("score", score, self.runner_class.score_kinds)
        self.max_turns = max_turns
        self.overview_style = overview_style
        self.overview_chars = overview_chars
        self.feedback_chars = feedback_chars
        self.reward_kind = reward
        self.render_mode = render_mode
        self.ladder = ladder if isinstance(ladder, RewardLadder) else RewardLadder(**(ladder or {}))
        own_runner = self.runner_class(
            data_root=data_root,
            sandbox_limits=_limits(sandbox_limits),
            ladder=self.ladder,
            competitions_dir=competitions_dir,
            score=score,
            feedback_chars=feedback_chars,
            feedback_style=overview_style,
            sandbox_start=sandbox_start,
        )
        names = own_runner.available() if competition is None else _names(competition)
        self.competitions: dict[str, Competition] = {name: own_runner.competition(name) for name in names}
        self.runner: Callable[[Submission], Outcome] = runner or own_runner
        self.observation_space = UnicodeText(MAX_OBSERVATION_CHARS)
        self.action_space = UnicodeText(MAX_ACTION_CHARS)
        self._episode: _Episode | None = None

    @property
    def environment_key(self) -> str | None:
        """What beside a script decides its outcome, for a result cache; None for a runner of one's own."""
        if not isinstance(self.runner, CompetitionRunner):
            return None
        return self.runner.environment_key(sorted(self.competitions))

    def preflight(self) -> None:
        """Run a trial script in the sandbox.

        Raises:
            SandboxUnavailable: if this machine cannot isolate scripts, with the remedy.
        """
        if isinstance(self.runner, CompetitionRunner):
            from wmrl_gym.execution.probe import probe

            probe(self.runner.sandbox_start)

    def data_digests(self) -> dict[str, str]:
        """Digest of all that is public in each competition, and of what its submissions are graded by."""
        return {name: competition.data_digest() for name, competition in sorted(self.competitions.items())}

    def data_folders(self) -> Sequence[DataFolder]:
        """The competitions' folders; none for a runner of one's own, which knows by itself what it reads."""
        if not isinstance(self.runner, CompetitionRunner):
            return ()
        return self.runner.data_folders(sorted(self.competitions))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: seeds the choice among several competitions.
            options: ``{"competition": name}`` chooses one of them.

        Raises:
            CompetitionError: if that is not one of this environment's competitions.
        """
        super().reset(seed=seed)
        chosen = (options or {}).get("competition")
        if chosen is None:
            names = sorted(self.competitions)
            chosen = names[int(self.np_random.integers(len(names)))] if len(names) > 1 else names[0]
        if chosen not in self.competitions:
            raise CompetitionError(
                f"there is no competition {chosen!r} in this environment\n"
                f"  it was made with: {', '.join(sorted(self.competitions))}\n"
                "  correct the option 'competition' of reset, or make the environment with it."
            )
        self._episode = _Episode(self.competitions[chosen])
        overview = render_overview(self._episode.competition.overview, self.overview_style, self.overview_chars)
        if self.overview_style == "full":
            overview = first_message(overview, self.max_turns)
        observation = overview[:MAX_OBSERVATION_CHARS]
        self._episode.transcript.append(observation)
        return observation, {"competition": chosen, "turn": 0}

    def submit(self, action: str) -> Submission | None:
        """Take an answer; return the script to score, or None for anything else."""
        episode = self._playing("submit")
        if len(action) > MAX_ACTION_CHARS:
            problem = f"the answer has {len(action)} characters, more than {MAX_ACTION_CHARS}"
            episode.action = Action("malformed", problem=problem)
        else:
            episode.action = parse_action(action)
        episode.transcript.append(action)
        if episode.action.kind != "execute":
            return None
        competition = episode.competition
        return Submission(competition.name, episode.action.code, {"overview": competition.overview})

    def execute(self, submission: Submission) -> Outcome:
        """Run the script in the sandbox and grade what it leaves."""
        return self.runner(submission)

    def advance(self, outcome: Outcome | None) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Count the turn and tell the agent what came of its answer."""
        episode = self._playing("advance")
        action, episode.action = episode.action, None
        if action is None:
            raise gym.error.Error("advance: no answer was submitted since the last turn; call submit first")
        if action.kind == "execute" and outcome is None:
            raise gym.error.Error("advance: the submitted script needs an outcome; execute or predict it first")
        episode.turn += 1
        info: dict[str, Any] = {"competition": episode.competition.name, "turn": episode.turn}
        if action.kind != "execute":
            outcome = self._judge(action, episode)
            if outcome is not None:
                info["outcome"] = outcome
        terminated = episode.turn >= self.max_turns
        reward = self._reward(outcome, episode)
        info |= {
            "status": None if outcome is None else str(outcome.status),
            "score": None if outcome is None else outcome.score,
            "percentile": None if outcome is None else outcome.details.get("percentile"),
            "best_score": episode.best_score,
        }
        observation = self._observation(outcome, episode)
        episode.transcript.append(observation)
        episode.over = terminated
        return observation, reward, terminated, False, info

    def render(self) -> str | None:  # type: ignore[override]
        """The episode so far, observations and answers in turn; None unless the mode is "ansi"."""
        if self.render_mode != "ansi" or self._episode is None:
            return None
        return "\n\n".join(self._episode.transcript)

    def _playing(self, method: str) -> _Episode:
        if self._episode is None or self._episode.over:
            raise gym.error.ResetNeeded(f"{method}: the episode has ended or not begun; call reset first")
        return self._episode

    def _judge(self, action: Action, episode: _Episode) -> Outcome | None:
        """Outcome of an answer that holds no script; None for a request, unless nothing was handed in at all."""
        problem = action.problem
        if action.kind == "request_info":
            if episode.turn < self.max_turns or episode.judged:
                return None
            # An episode of mere requests hands in nothing. That is a known result, not an unknown one.
            problem = "the last turn was spent on a request, and nothing was handed in"
        feedback = render_feedback(
            Status.NO_CODE, problem=problem, max_chars=self.feedback_chars, style=self.overview_style
        )
        return Outcome(
            score=self.ladder.score(Status.NO_CODE),
            status=Status.NO_CODE.value,
            feedback=feedback,
            source="environment",
            details={"percentile": None, "raw_score": None, "exception": None, "problem": problem},
        )

    def _reward(self, outcome: Outcome | None, episode: _Episode) -> float:
        if outcome is None:
            return 0.0
        episode.judged = True
        if outcome.score is None:
            return math.nan
        before = episode.best_score
        episode.best_score = outcome.score if before is None else max(before, outcome.score)
        if outcome.status == Status.VALID:
            episode.note_valid(outcome.details.get("percentile"))
        if self.reward_kind == "score":
            return float(outcome.score)
        return float(episode.best_score - (before or 0.0))

    def _observation(self, outcome: Outcome | None, episode: _Episode) -> str:
        if outcome is not None:
            feedback = outcome.feedback
        else:
            feedback = render_inventory(episode.competition.overview.inventory, self.feedback_chars)
        feedback = clip_middle(feedback, self.feedback_chars)
        if self.overview_style == "compact":
            return feedback
        turns_left = self.max_turns - episode.turn
        return next_message(feedback, turns_left, episode.has_valid, episode.best_percentile)[:MAX_OBSERVATION_CHARS]


class _Episode:
    """What is known of the episode being played."""

    def __init__(self, competition: Competition) -> None:
        self.competition = competition
        self.turn = 0
        self.over = False
        self.action: Action | None = None
        self.judged = False
        self.best_score: float | None = None
        self.has_valid = False
        self.best_percentile: float | None = None
        self.transcript: list[str] = []

    def note_valid(self, percentile: float | None) -> None:
        self.has_valid = True
        if percentile is not None:
            self.best_percentile = max(percentile, self.best_percentile or 0.0)


def _names(competition: str | Sequence[str]) -> list[str]:
    names = [competition] if isinstance(competition, str) else list(competition)
    if not names:
        raise CompetitionError(
            "no competition is named\n  make the environment with competition='titanic_survival', say, with several\n"
            "  names, or with None for all that are prepared. `wmrl competitions list` shows what there is."
        )
    return names


def _limits(limits: SandboxLimits | Mapping[str, float] | None) -> SandboxLimits | None:
    if not isinstance(limits, Mapping):
        return limits
    from wmrl_gym.execution.limits import SandboxLimits

    return SandboxLimits(**limits)  # type: ignore[arg-type]


def _check_settings(
    max_turns: int, overview_style: str, feedback_chars: int, reward: str, render_mode: str | None
) -> None:
    if max_turns < 1:
        raise ValueError(f"env.max_turns is {max_turns}: an episode needs at least one turn")
    if feedback_chars < 1:
        raise ValueError(f"env.feedback_chars is {feedback_chars}: give a positive number")
    choices = {
        "overview_style": (overview_style, ("full", "compact")),
        "reward": (reward, ("improvement", "score")),
        "render_mode": (render_mode, (None, "ansi")),
    }
    for setting, (value, allowed) in choices.items():
        _check_choice(setting, value, allowed)


def _check_choice(setting: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise ValueError(f"env.{setting} is {value!r}: choose {' or '.join(map(repr, allowed))}")
