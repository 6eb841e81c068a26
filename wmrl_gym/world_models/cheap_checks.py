"""The least that can be known of a script without running it: does it parse, and is what it names there?

An honest weak world model. It follows no value and knows no estimator, so it lets most faults pass and tells valid
scripts hardly apart. What debiasing, fusion and anchors are worth shows beside a judge like this one.
"""

from __future__ import annotations

import ast
import importlib.util
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.envs.mle_dojo.feedback import FeedbackStyle, render_feedback
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.envs.mle_dojo.runner import syntax_problem
from wmrl_gym.scriptcheck.limits import MAX_SOURCE
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.verdicts import Check, Verdict
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS, aggregate, first_failure

CONFIDENCE = 0.9
"""Of a fault that was found: names are looked at and never followed, so a few of them are none."""


class CheapChecks:
    """Predicts a script's outcome from five looks.

    It parses; its imports are installed; the files that it reads exist; so do the columns that it takes of them; and it
    mentions where the submission goes. What stands in a ``try`` is passed.

    What passes is valid: of "mid" quality if it fits something, "low" if it does not.

    Implements `wmrl_gym.core.WorldModel`. Submissions need ``context["overview"]``.

    Args:
        ladder: scores of the statuses.
        feedback_chars: length of the feedback, as the environment's own.
        feedback_style: "full", "compact", or None to go by the length.
    """

    def __init__(
        self,
        ladder: RewardLadder | None = None,
        *,
        feedback_chars: int = 2000,
        feedback_style: FeedbackStyle | None = None,
    ) -> None:
        self.ladder = ladder if ladder is not None else RewardLadder()
        self.feedback_chars = feedback_chars
        self.feedback_style = feedback_style

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """One outcome per submission, in order. An item that cannot be looked at has the score None."""
        outcomes = []
        for submission in submissions:
            started = time.perf_counter()
            try:
                outcomes.append(self._outcome(submission, started))
            except Exception as error:
                problem = {"analysis_error": f"{type(error).__name__}: {error}"}
                seconds = time.perf_counter() - started
                outcomes.append(Outcome(None, Status.UNKNOWN.value, "", "world_model", seconds, problem))
        return outcomes

    def _outcome(self, submission: Submission, started: float) -> Outcome:
        overview = submission.context.get("overview")
        if not isinstance(overview, Overview):
            raise TypeError("the cheap checks need submission.context['overview'], an Overview")
        script = str(submission.content)
        if len(script) > MAX_SOURCE:
            raise ValueError(f"the script has {len(script)} characters: more than {MAX_SOURCE} are not read")
        problem = syntax_problem(script)
        found: list[Verdict] = []
        quality = None
        if problem is None and script.strip():
            tree = ast.parse(script)
            found = verdicts(tree, overview)
            fits = any(isinstance(node, ast.Attribute) and node.attr.startswith("fit") for node in ast.walk(tree))
            quality = QUALITY_BUCKETS["mid" if fits else "low"]
        status, score = aggregate(
            found, self.ladder, quality, compiles=problem is None, has_code=bool(script.strip())
        )
        decisive = first_failure(found)
        invalid = decisive is not None and status is Status.INVALID_SUBMISSION
        feedback = render_feedback(
            status,
            stderr=problem or (decisive.feedback if decisive is not None and not invalid else ""),
            percentile=quality if status is Status.VALID else None,
            metric=overview.metric,
            higher_is_better=overview.higher_is_better,
            max_chars=self.feedback_chars,
            problem=decisive.feedback if decisive is not None and invalid else None,
            style=self.feedback_style,
        )
        details = {
            "verdicts": [verdict.as_dict() for verdict in found],
            "exception": "SyntaxError" if problem is not None else decisive.exception if decisive is not None else None,
            "line": decisive.line if decisive is not None else None,
            "confidence": decisive.confidence if decisive is not None else None,
            "percentile": quality if status is Status.VALID else None,
        }
        return Outcome(score, status.value, feedback, "world_model", time.perf_counter() - started, details)


def verdicts(tree: ast.Module, overview: Overview) -> list[Verdict]:
    """What the looks find in a script: a verdict on imports, files and columns, and the submission."""
    guarded = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    nodes = [node for node in ast.walk(tree) if id(node) not in guarded]
    imports = next(_missing_imports(nodes), Verdict(Check.IMPORTS_AND_NAMES, True))
    faults = [*_missing_files(nodes, overview), *_missing_columns(tree, nodes, overview)]
    first = min(faults, key=lambda fault: fault.order, default=Verdict(Check.FILES_AND_COLUMNS, True))
    return [imports, first, _submission(tree)]


def _fault(check: Check, node: ast.AST, exception: str, text: str) -> Verdict:
    line = getattr(node, "lineno", 1)
    feedback = f'Traceback (most recent call last):\n  File "script.py", line {line}, in <module>\n{exception}: {text}'
    return Verdict(check, False, CONFIDENCE, exception, None, line, feedback, text, order=line)


@lru_cache(maxsize=1024)
def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _missing_imports(nodes: Sequence[ast.AST]) -> Iterator[Verdict]:
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in (name.partition(".")[0] for name in names):
            if not _installed(name):
                text = f"No module named '{name}'"
                yield _fault(Check.IMPORTS_AND_NAMES, node, "ModuleNotFoundError", text)


def _read_path(node: ast.AST) -> str | None:
    """The path, relative to DATA_DIR, that a call like ``pd.read_csv(f"{DATA_DIR}/train.csv")`` reads."""
    if not (isinstance(node, ast.Call) and node.args):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if not name.startswith("read_"):
        return None
    parts = list(ast.walk(node.args[0]))
    names = {part.id for part in parts if isinstance(part, ast.Name)} - {"os", "Path", "str", "pathlib"}
    words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if names == {"DATA_DIR"} and len(words) == 1:
        return words[0].strip("/")
    return None


def _missing_files(nodes: Sequence[ast.AST], overview: Overview) -> Iterator[Verdict]:
    known = {file.path for file in overview.inventory.files}
    for node in nodes:
        path = _read_path(node)
        if path and path not in known and not any(path.startswith(f"{folder}/") for folder in known):
            text = f"[Errno 2] No such file or directory: '{path}'"
            yield _fault(Check.FILES_AND_COLUMNS, node, "FileNotFoundError", text)


def _missing_columns(tree: ast.Module, nodes: Sequence[ast.AST], overview: Overview) -> Iterator[Verdict]:
    """Columns taken by name of a table that was read and never bound anew, which neither it nor the script has."""
    bound = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    bound.update(n.arg for n in ast.walk(tree) if isinstance(n, ast.arg))
    tables: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            file = overview.inventory.file(_read_path(node.value) or "")
            plain = isinstance(node.value, ast.Call) and not node.value.keywords
            if file is not None and file.columns and plain and bound[node.targets[0].id] == 1:
                tables[node.targets[0].id] = {column.name for column in file.columns}
    # Whatever the script stores or names elsewhere (rename, assign, insert) may be a column by then.
    loads = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load)]
    taken = {id(n.slice) for n in loads}
    made = {
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in taken
    }
    for node in loads:
        table = tables.get(node.value.id) if isinstance(node.value, ast.Name) else None
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if table is not None and isinstance(key, str) and key not in table and key not in made:
            yield _fault(Check.FILES_AND_COLUMNS, node, "KeyError", repr(key))


def _submission(tree: ast.Module) -> Verdict:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "SUBMISSION_PATH" and isinstance(node.ctx, ast.Load):
            return Verdict(Check.SUBMISSION, True)
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if text.endswith("submission.csv") or text == "SUBMISSION_PATH":
            return Verdict(Check.SUBMISSION, True)
    text = "the script never mentions SUBMISSION_PATH: no submission.csv would be written"
    return Verdict(Check.SUBMISSION, False, CONFIDENCE, feedback=text, reason=text)
