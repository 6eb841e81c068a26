"""What the agent wrote and what was said about it: the trajectories of a run, for people to read.

The file is JSON Lines, compressed. Each step is a gzip member of its own, appended in one write: gzip reads members one
after the other as a single text, and a killed run loses at most the step that was being written. A task's opening
observation (a long overview, the same in every episode) is a line of its own, which the trajectories refer to.

What is handed in as pictures (an array named "frames") is kept as a strip and an animation of them, of a few
trajectories of each step. Turns without any text, in which nothing was handed in, are not kept.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wmrl_gym.algorithms.advantages import group_advantages
from wmrl_gym.core import Group, Outcome, Trajectory, Turn
from wmrl_gym.proxy.reward_proxy import ScoredStep
from wmrl_gym.runs.records.film import STRIP_FRAMES, animation, evenly, frames_of, strip

MAX_TEXT = 20_000
"""Characters of one text that are kept: an agent that loops must not fill the disk."""
MAX_ITEMS = 64
"""Items of one list in an outcome's details that are kept."""

Record = dict[str, Any]


class TrajectoryRecorder:
    """Appends the trajectories of each step to a file.

    Args:
        path: the file, ``trajectories.jsonl.gz`` of a run.
        which: "all", or only those of "anchors".
        normalise_by_std: as the algorithm's, so that the recorded advantages are those that were learned from.
        pictured: trajectories of each step, anchors first, whose frames are kept as pictures if they have any.
    """

    def __init__(
        self,
        path: Path,
        which: Literal["all", "anchors"] = "all",
        *,
        normalise_by_std: bool = False,
        pictured: int = 16,
    ) -> None:
        self.path = path
        self.which = which
        self.normalise_by_std = normalise_by_std
        self.pictured = pictured
        self._known: set[str] | None = None

    def record(self, step: int, groups: Sequence[Group], scored: ScoredStep) -> None:
        """Append one step; fits ``on_groups`` of `WMRLGRPO`."""
        if self._known is None:
            self._known = set(read_trajectories(self.path).openings)
        lines: list[Record] = []
        pictured = self._pictured(groups)
        for g, group in enumerate(groups):
            if self.which == "anchors" and not group.is_anchor:
                continue
            rewards, weight = scored.rewards[g], float(scored.weights[g])
            advantages = group_advantages(rewards, normalise_by_std=self.normalise_by_std)
            for index, trajectory in enumerate(group.trajectories):
                opening = _opening(trajectory)
                key = hashlib.sha256(f"{group.task_id}\0{opening}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
                if key not in self._known:
                    self._known.add(key)
                    lines.append({"kind": "opening", "step": step, "key": key, "task": group.task_id, "text": opening})
                lines.append(
                    {
                        "kind": "trajectory",
                        "step": step,
                        "group": group.key,
                        "index": index,
                        "task": group.task_id,
                        "anchor": bool(group.is_anchor),
                        "propensity": _plain(group.propensity),
                        "weight": weight,
                        "reward": _plain(rewards[index]),
                        "advantage": _plain(advantages[index]),
                        "predicted": _plain(trajectory.predicted_score),
                        "executed": _plain(trajectory.executed_score),
                        "opening": key,
                        "turns": _turns(trajectory, pictured=(g, index) in pictured),
                    }
                )
        if lines:
            with self.path.open("ab") as file:
                file.write(_compressed(lines))

    def _pictured(self, groups: Sequence[Group]) -> set[tuple[int, int]]:
        """Group and index of the trajectories whose pictures are kept: anchors first, evenly over the others."""
        chosen: list[tuple[int, int]] = []
        for is_anchor in (True, False):
            of_kind = [
                (g, index)
                for g, group in enumerate(groups)
                if group.is_anchor == is_anchor
                for index, trajectory in enumerate(group.trajectories)
                if any(_frames(turn) is not None for turn in trajectory.turns)
            ]
            chosen += [of_kind[i] for i in evenly(len(of_kind), self.pictured - len(chosen))]
        return set(chosen)

    def rewind(self, step: int) -> None:
        """Forget this step and all later ones, and a member that a kill left unfinished: they will come again."""
        self._known = None
        if not self.path.exists():
            return
        kept = [line for line in _lines(self.path, []) if line["step"] < step]
        replacement = self.path.with_suffix(".tmp")
        replacement.write_bytes(_compressed(kept) if kept else b"")
        os.replace(replacement, self.path)


@dataclass(frozen=True)
class RecordedTrajectories:
    """What lies in a file of trajectories."""

    openings: dict[str, str] = field(default_factory=dict)
    """First observations by their key; a trajectory's "opening" names its own."""
    trajectories: list[Record] = field(default_factory=list)
    """One plain mapping each, oldest first."""
    problem: str | None = None
    """Why the end of the file could not be read, if so."""


def read_trajectories(path: Path) -> RecordedTrajectories:
    """Read a file of trajectories as far as it can be read; empty if there is none."""
    problems: list[str] = []
    lines = list(_lines(path, problems)) if path.exists() else []
    return RecordedTrajectories(
        openings={line["key"]: line["text"] for line in lines if line["kind"] == "opening"},
        trajectories=[line for line in lines if line["kind"] == "trajectory"],
        problem=problems[0] if problems else None,
    )


def _compressed(lines: Sequence[Record]) -> bytes:
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    # No time stamp: the same run gives the same bytes. Half of a surrogate pair is legal in Python and nowhere else.
    return gzip.compress(text.encode("utf-8", "replace"), compresslevel=6, mtime=0)


def _lines(path: Path, problems: list[str]) -> Iterator[Record]:
    """The whole lines of a file up to where it breaks off; why it does goes into `problems`."""
    for line in _decompressed(path, problems).split(b"\n"):
        if not line:
            continue
        try:
            record = json.loads(line)
            step, kind = record["step"], record["kind"]
        except (ValueError, TypeError, KeyError):
            if not problems:
                problems.append(f"{path.name} has a line that is not a record")
            return
        if isinstance(step, int) and kind in ("opening", "trajectory"):
            yield record


def _decompressed(path: Path, problems: list[str]) -> bytes:
    """Member after member, up to where the file breaks off: gzip's own reader would withhold the members before."""
    pieces: list[bytes] = []
    member = None
    with path.open("rb") as file:
        while piece := file.read(1 << 16):
            while piece:
                member = member or zlib.decompressobj(wbits=31)
                try:
                    pieces.append(member.decompress(piece))
                except zlib.error as error:
                    problems.append(f"{path.name} breaks off ({error})")
                    return b"".join(pieces)
                piece = member.unused_data
                if member.eof:
                    member = None
    if member is not None:
        problems.append(f"{path.name} breaks off")
    return b"".join(pieces)


def _opening(trajectory: Trajectory) -> str:
    return _text(trajectory.turns[0].decision.observation) if trajectory.turns else ""


def _turns(trajectory: Trajectory, *, pictured: bool) -> list[Record]:
    """The turns without those that only moved on; where some are left out, the others say which they are."""
    kept = [(t, turn) for t, turn in enumerate(trajectory.turns) if _is_telling(turn)]
    records = []
    for t, turn in kept:
        record = _turn(turn, first=t == 0)
        if len(kept) < len(trajectory.turns):
            record["number"] = t + 1
        if (film := _film(turn, pictured=pictured)) is not None:
            record["film"] = film
        records.append(record)
    return records


def _is_telling(turn: Turn) -> bool:
    """Whether there is anything to read: a robot is told numbers, and most of its turns hand in nothing."""
    return isinstance(turn.decision.observation, str) or turn.submission is not None or turn.outcome is not None


def _frames(turn: Turn) -> Any:
    return None if turn.submission is None else frames_of(turn.submission.content)


def _film(turn: Turn, *, pictured: bool) -> Record | None:
    frames = _frames(turn)
    if frames is None or turn.submission is None:
        return None
    instruction = turn.submission.context.get("instruction")
    film: Record = {"frames": len(frames), "instruction": None if instruction is None else _text(instruction)}
    if pictured:
        film["shown"] = evenly(len(frames), STRIP_FRAMES)
        film["strip"] = base64.b64encode(strip(frames)).decode()
        film["animation"] = base64.b64encode(animation(frames)).decode()
    return film


def _turn(turn: Turn, *, first: bool) -> Record:
    content = None if turn.submission is None else turn.submission.content
    script = None if content is None or frames_of(content) is not None else _text(content)
    return {
        "observation": None if first else _text(turn.decision.observation),
        "script": script,
        "answer": _answer(turn.decision.action, content),
        "finished": bool(turn.decision.finished),
        "reward": _plain(turn.reward),
        "predicted": _outcome(turn.predicted),
        "executed": _outcome(turn.executed),
    }


def _answer(action: Any, content: Any) -> str | None:
    """The agent's whole answer, unless it is nothing but the fenced script."""
    if isinstance(action, str) and isinstance(content, str) and content:
        around = action.replace(content, "", 1).strip()
        if around.strip("`").strip().lower() in ("", "python", "python3", "py"):
            return None
    return _text(action)


def _outcome(outcome: Outcome | None) -> Record | None:
    if outcome is None:
        return None
    details = dict(outcome.details)
    verdicts = details.pop("verdicts", None)
    record: Record = {
        "status": str(outcome.status),
        "score": outcome.score,
        "feedback": _text(outcome.feedback),
        "source": outcome.source,
        "seconds": round(float(outcome.seconds), 4),
        "details": {name: value for name, value in _plain(details).items() if value not in (None, "")},
    }
    if isinstance(verdicts, Sequence) and not isinstance(verdicts, str):
        record["verdicts"] = [_verdict(verdict) for verdict in verdicts if isinstance(verdict, Mapping)]
    return record


def _verdict(verdict: Mapping[str, Any]) -> Record:
    """Without what says nothing; "passed" stays, for None is an opinion of its own: none."""
    plain = _plain(verdict)
    return {name: value for name, value in plain.items() if name == "passed" or value not in (None, "")}


def _text(value: Any) -> str:
    """A text as it is, anything else described; the middle of a very long one is left out."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"array of shape {tuple(value.shape)}, {value.dtype}"
    if isinstance(value, Mapping):
        value = "\n".join(f"{name}: {_text(item)}" for name, item in value.items())
    text = value if isinstance(value, str) else str(value)
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _plain(value: Any) -> Any:
    """As JSON knows it; NaN and infinity become null."""
    if hasattr(value, "item") and getattr(value, "size", None) == 1:
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value[:MAX_ITEMS]]
    return _text(value)
