"""Timeouts are executed again, alone: on a busy machine a script may run into the limit that would otherwise not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from wmrl_gym.core import Executor, Outcome, Submission
from wmrl_gym.corpus.file import Record
from wmrl_gym.envs.mle_dojo.competition import Competition


def confirm_timeouts(
    records: Sequence[Record], competitions: Mapping[str, Competition], executor: Executor, times: int
) -> list[Record]:
    """The records, with what came of a script that timed out when it was executed again.

    An agent's revision keeps answering to what it was told at first.

    Args:
        records: of the corpus.
        competitions: by name.
        executor: executes, one script at a time.
        times: how often a timeout must repeat to be believed.
    """
    return [_confirmed(record, competitions[record.task], executor, times) for record in records]


def _confirmed(record: Record, competition: Competition, executor: Executor, times: int) -> Record:
    if record.status != "timeout":
        return record
    for _ in range(times):
        submission = Submission(record.task, record.script, {"overview": competition.overview})
        outcome = executor.submit(submission).result()
        if outcome.status != "timeout" and outcome.score is not None:
            return dataclasses.replace(record, **executed_facts(outcome))
    return record


def executed_facts(outcome: Outcome) -> dict[str, Any]:
    """The fields of a record that execution decides."""
    details = outcome.details
    return {
        "status": str(outcome.status),
        "score": outcome.score,
        "percentile": details.get("percentile"),
        "exception": details.get("exception"),
        "line": details.get("line"),
        "seconds": round(outcome.seconds, 3),
    }
