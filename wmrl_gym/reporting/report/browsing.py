"""The trajectories as the page's browser takes them: chosen if they are many, and those marked that look gamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmrl_gym.reporting.report.loading import RecordedRun

OVERRATED_BY = 0.3
"""Predicted minus executed score from which a trajectory, or a turn of it, is suspected of gaming the world model."""
RECORDED_STRINGS = "suspicious_strings"
"""Name under which a world model records, in its details, what in a script seemed to be meant for it."""
PICTURE_CHARACTERS = 24_000_000
"""Characters of pictures that a page holds at most."""

Record = dict[str, Any]


def browser_payload(runs: Sequence[RecordedRun], limit: int) -> Record:
    """Everything the browser shows.

    Args:
        runs: in the order of the report.
        limit: trajectories in all, shared evenly among the runs.
    """
    with_any = [run for run in runs if run.recorded.trajectories]
    shares = _shares([len(run.recorded.trajectories) for run in with_any], limit)
    payload: Record = {"overratedBy": OVERRATED_BY, "runs": [], "total": 0, "trajectories": [], "openings": {}}
    for index, (run, share) in enumerate(zip(with_any, shares, strict=True)):
        chosen = choose(run.recorded.trajectories, share)
        payload["runs"].append({"name": run.name, "experiment": run.experiment, "seed": run.seed})
        payload["total"] += len(run.recorded.trajectories)
        for trajectory in chosen:
            key = f"{index}:{trajectory['opening']}"
            payload["openings"][key] = run.recorded.openings.get(trajectory["opening"], "")
            suspicions = suspicions_of(trajectory)
            payload["trajectories"].append({**trajectory, "run": index, "opening": key, "suspicions": suspicions})
    payload["trajectories"] = _within(PICTURE_CHARACTERS, payload["trajectories"])
    return payload


def choose(trajectories: Sequence[Record], limit: int) -> list[Record]:
    """At most `limit` of them: the executed and the suspected first, then evenly over the run; in their own order."""
    if len(trajectories) <= limit:
        return list(trajectories)
    telling = [i for i, t in enumerate(trajectories) if t["anchor"] or suspicions_of(t)]
    others = sorted(set(range(len(trajectories))) - set(telling))
    kept = _evenly(telling, limit)
    kept += _evenly(others, limit - len(kept))
    return [trajectories[i] for i in sorted(kept)]


def suspicions_of(trajectory: Mapping[str, Any]) -> list[str]:
    """Why a trajectory is suspected of gaming the world model, in sentences; empty if it is not."""
    found = []
    gap = _gap(trajectory["predicted"], trajectory["executed"])
    if gap is not None and gap >= OVERRATED_BY:
        found.append(f"predicted {trajectory['predicted']:.2f}, executed {trajectory['executed']:.2f}")
    for number, turn in enumerate(trajectory["turns"], start=1):
        predicted, executed = turn["predicted"], turn["executed"]
        if predicted is None:
            continue
        strings = predicted["details"].get(RECORDED_STRINGS)
        if strings:
            said = ", ".join(map(str, strings)) if isinstance(strings, list) else str(strings)
            found.append(f"turn {number}: strings meant for the world model: {said}")
        if executed is None:
            continue
        gap = _gap(predicted["score"], executed["score"])
        if gap is not None and gap >= OVERRATED_BY:
            found.append(f"turn {number}: predicted {predicted['status']}, executed {executed['status']}")
    return found


def _within(characters: int, trajectories: Sequence[Record]) -> list[Record]:
    """The trajectories with as many pictures as fit: those of executed and suspected ones first, then any others."""
    order = [int(i) for i in np.random.default_rng(0).permutation(len(trajectories))]
    order.sort(key=lambda i: not (trajectories[i]["anchor"] or trajectories[i]["suspicions"]))
    thinned = list(trajectories)
    for i in order:
        size = sum(len(film.get("strip", "")) + len(film.get("animation", "")) for film in _films(trajectories[i]))
        if size <= characters:
            characters -= size
        else:
            thinned[i] = {**thinned[i], "turns": [_without_pictures(turn) for turn in thinned[i]["turns"]]}
    return thinned


def _films(trajectory: Mapping[str, Any]) -> list[Record]:
    return [turn["film"] for turn in trajectory["turns"] if turn.get("film")]


def _without_pictures(turn: Record) -> Record:
    if not turn.get("film"):
        return turn
    film = {name: value for name, value in turn["film"].items() if name not in ("strip", "animation")}
    return {**turn, "film": {**film, "leftOut": "strip" in turn["film"]}}


def _gap(predicted: float | None, executed: float | None) -> float | None:
    return None if predicted is None or executed is None else predicted - executed


def _shares(sizes: Sequence[int], limit: int) -> list[int]:
    """`limit` divided so that nobody gets more than it has and what it leaves goes to the others."""
    shares, left = [0] * len(sizes), limit
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda i: sizes[i])):
        shares[index] = min(sizes[index], left // (len(sizes) - rank))
        left -= shares[index]
    return shares


def _evenly(items: Sequence[int], count: int) -> list[int]:
    if count <= 0:
        return []
    if len(items) <= count:
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
