"""The state of a service: a `GroupScoring`, the step that is open, and the one door through which both change.

Every change is an entry of the journal. It is applied and written before its answer leaves; if it cannot be written,
the state is made anew from what could.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.integrations.http.answers import (
    GroupDraw,
    GroupOutcomes,
    GroupScores,
    MemberOutcome,
    ServiceState,
    StepDraw,
    StepScores,
    Verdict,
)
from wmrl_gym.integrations.http.journal import Entry, Journal, Key
from wmrl_gym.integrations.http.refusals import Conflict, Refusal, Unavailable

Answer = Verdict | StepDraw | GroupOutcomes | StepScores


class Book:
    """What a service knows. One thread writes; others may look.

    Args:
        journal: what was answered so far; it is applied now.
        make_scoring: makes a `GroupScoring` that has learned nothing.
    """

    def __init__(self, journal: Journal, make_scoring: Callable[[], GroupScoring]) -> None:
        self.journal = journal
        self._make_scoring = make_scoring
        self.scoring: GroupScoring
        self.draws: dict[str, GroupDraw] = {}
        """The groups of the open step, in the order in which they were declared; empty if none is open."""
        self._handed_in: dict[str, Mapping[str, Any]] = {}
        self.broken: str | None = None
        """Why the state is lost, if it is."""
        self._rebuild()

    def write(self, entries: Sequence[Entry], about: Mapping[str, Any] | None = None) -> list[str | Refusal]:
        """Apply entries and write them down; the answer of each, or why it was refused.

        Raises:
            Unavailable: if they cannot be written. None of them happened then.
        """
        if self.broken is not None:
            raise Unavailable(self.broken)
        results: list[str | Refusal] = []
        written: list[Entry] = []
        try:
            for entry in entries:
                try:
                    answer = json.dumps(asdict(self.apply(entry.key, entry.facts)), allow_nan=False)
                except Refusal as refusal:
                    results.append(refusal)
                    continue
                written.append(entry._replace(answer=answer))
                results.append(answer)
            self.journal.append(written, about)
        except Exception as error:
            self._rebuild_or_break()
            raise Unavailable(
                f"the journal {self.journal.path} cannot be written ({error}): nothing was counted. Free some space on "
                "its disk, or mend it, and ask again"
            ) from error
        return results

    def apply(self, key: Key, facts: Mapping[str, Any]) -> Answer:
        """Change the state by one entry.

        Raises:
            Conflict: if it comes out of order. Nothing is changed then.
        """
        return getattr(self, f"_apply_{key.kind}")(key, facts)  # type: ignore[no-any-return]

    def is_anchor(self, step: int, group: str) -> bool:
        """Whether a group of the open step is executed.

        Raises:
            Conflict: if that step is not open, or has no such group.
        """
        self._check_is_open(step)
        if group not in self.draws:
            raise Conflict(f"step {step} was opened without a group {group!r}: it has {_some(list(self.draws))}")
        return self.draws[group].is_anchor

    def state(self) -> ServiceState:
        """Where the service stands."""
        draws, handed_in = self.draws, self._handed_in
        missing = [group for group in draws if group not in handed_in]
        return ServiceState(self.scoring.step, list(draws) or None, missing, self.scoring.proxy.metrics())

    def _apply_verify(self, key: Key, facts: Mapping[str, Any]) -> Verdict:
        predicted, executed, is_anchor = facts["predicted"], facts["executed"], facts["is_anchor"]
        proxy = self.scoring.proxy
        told = executed if is_anchor else predicted
        # The reward first: a forecast must not know its own execution.
        reward = _score(executed) if is_anchor else proxy.calibrate(_score(predicted))
        verdict = Verdict(
            step=key.step,
            group=key.group,
            member=facts["member"],
            reward=reward,
            predicted=_score(predicted),
            executed=_score(executed),
            is_anchor=is_anchor,
            propensity=facts["propensity"],
            status=told["status"],
            feedback=told["feedback"],
        )
        proxy.record_episode(
            key.step,
            key.group,
            predicted=verdict.predicted,
            executed=verdict.executed,
            is_anchor=is_anchor,
            propensity=verdict.propensity,
            status=told["status"] if is_anchor else "",
            seconds=told["seconds"] if is_anchor else 0.0,
        )
        return verdict

    def _apply_open(self, key: Key, facts: Mapping[str, Any]) -> StepDraw:
        if key.step != self.scoring.step or self.draws:
            raise Conflict(self._wrong_step(key.step, "cannot be opened"))
        groups = list(facts["groups"])
        draw = self.scoring.draw(groups)
        columns = zip(groups, draw.is_anchor.tolist(), draw.propensity.tolist(), strict=True)
        drawn = [GroupDraw(group, anchor, propensity) for group, anchor, propensity in columns]
        self._handed_in = {}
        self.draws = {item.group: item for item in drawn}
        return StepDraw(key.step, drawn)

    def _apply_group(self, key: Key, facts: Mapping[str, Any]) -> GroupOutcomes:
        is_anchor = self.is_anchor(key.step, key.group)
        self._handed_in[key.group] = facts
        members = []
        for predicted, executed in zip(facts["predicted"], facts["executed"], strict=True):
            told = executed if is_anchor else predicted
            members.append(MemberOutcome(_score(predicted), _score(executed), told["status"], told["feedback"]))
        return GroupOutcomes(key.step, key.group, is_anchor, members)

    def _apply_score(self, key: Key, facts: Mapping[str, Any]) -> StepScores:
        self._check_is_open(key.step)
        missing = [group for group in self.draws if group not in self._handed_in]
        if missing:
            raise Conflict(
                f"step {key.step} waits for {len(missing)} of {len(self.draws)} groups: {_some(missing)}. "
                "Hand them in, then ask again"
            )
        draws = list(self.draws.values())
        scores: dict[str, list[list[float | None]]] = {
            which: [[_score(outcome) for outcome in self._handed_in[draw.group][which]] for draw in draws]
            for which in ("predicted", "executed")
        }
        taught = self.scoring.score(
            [draw.group for draw in draws],
            [draw.is_anchor for draw in draws],
            scores["predicted"],
            scores["executed"],
            [draw.propensity for draw in draws],
        )
        scored = taught.scored
        columns = zip(draws, scored.weights, scored.dropped, scored.rewards, taught.advantages, strict=True)
        self.draws, self._handed_in = {}, {}
        return StepScores(
            key.step,
            [
                GroupScores(d.group, d.is_anchor, d.propensity, float(weight), bool(dropped), rewards, advantages)
                for d, weight, dropped, rewards, advantages in columns
            ],
            scored.metrics,
        )

    def _check_is_open(self, step: int) -> None:
        if step != self.scoring.step or not self.draws:
            raise Conflict(self._wrong_step(step, "is not open"))

    def _wrong_step(self, step: int, what: str) -> str:
        now = self.scoring.step
        stands = f"step {now} is open" if self.draws else f"step {now} is to be opened next"
        return f"step {step} {what}: {stands}. Steps are numbered from 0, and one is scored before the next is opened"

    def _rebuild(self) -> None:
        self.scoring = self._make_scoring()
        self.draws, self._handed_in = {}, {}
        for entry in self.journal.entries():
            self.apply(entry.key, entry.facts)

    def _rebuild_or_break(self) -> None:
        try:
            self._rebuild()
        except Exception as error:
            self.broken = f"the journal {self.journal.path} can no longer be read ({error}): mend it and start again"


def _score(outcome: Mapping[str, Any] | None) -> float | None:
    return None if outcome is None else outcome["score"]


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
