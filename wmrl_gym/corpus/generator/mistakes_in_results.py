"""Scripts that take too long, hand in the wrong thing, or do not compile."""

from __future__ import annotations

import numpy as np

from wmrl_gym.corpus.generator.mistake import Faulty, mistake, replaced
from wmrl_gym.corpus.generator.scripts import Plan

# 5 compute budget -----------------------------------------------------------------------------------------------------


@mistake(5, status="timeout", weight=1.0)
def too_many_trees(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Far more trees than fit into the time limit."""
    name, settings = plan.estimator.name, plan.settings
    if not name.startswith(("RandomForest", "ExtraTrees", "GradientBoosting")):
        return None
    return replaced(script, f"{name}({settings})", f"{name}(n_estimators=100000)", "timeout")


# 7 submission ---------------------------------------------------------------------------------------------------------


@mistake(7, status="invalid_submission", weight=2.0)
def wrong_submission_column(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The prediction column has a usual name instead of the asked one."""
    target, wrong = plan.facts.target, str(rng.choice(["prediction", "pred", "target"]))
    if plan.from_sample or wrong == target:
        return None
    value, identifier = plan.names.predictions, plan.facts.id_column
    complaint = _missing_column(plan, target, [identifier, wrong])
    return replaced(script, f'"{target}": {value}', f'"{wrong}": {value}', complaint)


def _missing_column(plan: Plan, column: str, found: list[str]) -> str:
    asked = f"{plan.facts.id_column},{plan.facts.target}"
    return f"invalid: Missing column(s) ['{column}']: expected {asked}, got {found}."


@mistake(7, status="invalid_submission")
def no_identifiers(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The id column is left out."""
    facts, names = plan.facts, plan.names
    complaint = _missing_column(plan, facts.id_column, [facts.target])
    old = f'{{"{facts.id_column}": {names.test}["{facts.id_column}"], '
    return None if plan.from_sample else replaced(script, old, "{", complaint)


@mistake(7, status="invalid_submission", weight=1.5)
def wrong_path(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The table is written elsewhere."""
    path = str(rng.choice(['"output.csv"', '"predictions.csv"']))
    return replaced(script, "(SUBMISSION_PATH", f"({path}", "invalid: no submission.csv was written")


@mistake(7, status="invalid_submission")
def never_written(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The predictions are printed, not written."""
    names = plan.names
    line = f"{names.submission}.to_csv(SUBMISSION_PATH, index=False)"
    return replaced(script, line, f"print({names.submission}.head())", "invalid: no submission.csv was written")


# 0 no runnable code ---------------------------------------------------------------------------------------------------


@mistake(0, status="syntax_error", weight=1.0)
def unclosed_bracket(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A bracket is never closed."""
    line = f'{plan.names.test} = pd.read_csv(f"{{DATA_DIR}}/test.csv")'
    return replaced(script, line, line[:-1], "SyntaxError: '(' was never closed")
