"""The world model as a whole: its contract, its words, and what it does when it cannot follow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.scriptcheck.sound_scripts import HEAD, SOUND
from tests.scriptcheck.worlds import World
from wmrl_gym.core import Outcome, Submission, WorldModel
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.static_analysis import StaticAnalysis


def _predict(worlds: dict[str, World], script: str, **options: object) -> Outcome:
    submission = Submission("houses", script, {"overview": worlds["houses"].overview})
    return StaticAnalysis(**options).predict([submission])[0]  # type: ignore[arg-type]


def test_it_is_a_world_model() -> None:
    assert isinstance(StaticAnalysis(), WorldModel)


def test_code_that_does_not_compile_scores_zero(worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, "train = pd.read_csv(\n")
    assert (outcome.status, outcome.score, outcome.source) == ("syntax_error", 0.0, "world_model")
    assert "SyntaxError" in outcome.feedback


def test_no_code_scores_zero(worlds: dict[str, World]) -> None:
    assert _predict(worlds, "  \n").status == "no_code"


def test_feedback_is_a_traceback_of_the_script(worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, HEAD + "def target(df):\n    return df['pricee']\ny = target(train)\n")
    expected = (
        "Traceback (most recent call last):\n"
        '  File "script.py", line 8, in <module>\n    y = target(train)\n'
        "  File \"script.py\", line 7, in target\n    return df['pricee']\n"
        "KeyError: 'pricee'"
    )
    assert expected in outcome.feedback


def test_compact_feedback_names_exception_and_line(worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, HEAD + "y = train['pricee']\n", feedback_style="compact")
    assert outcome.feedback == "error KeyError: 'pricee'\nline 6: y = train['pricee']"


def test_every_check_gives_a_verdict_and_one_fails(worlds: dict[str, World]) -> None:
    verdicts = _predict(worlds, HEAD + "y = train['pricee']\n").details["verdicts"]
    assert [v["check"] for v in verdicts] == [check.value for check in Check]
    failing = [v for v in verdicts if v["passed"] is False]
    assert [(v["check"], v["exception"], v["line"]) for v in failing] == [("files_and_columns", "KeyError", 6)]
    assert failing[0]["second"] and failing[0]["reason"] and 0 < failing[0]["confidence"] <= 1


def test_a_bad_item_is_unknown_and_spoils_no_other(worlds: dict[str, World]) -> None:
    good = Submission("houses", SOUND["numeric columns, filled, forest"][1], {"overview": worlds["houses"].overview})
    bad = Submission("houses", "x = 1\n", {})
    model = StaticAnalysis()
    outcomes = model.predict([bad, good, bad])
    assert [outcome.status for outcome in outcomes] == ["unknown", "valid", "unknown"]
    assert outcomes[0].score is None and "overview" in outcomes[0].details["analysis_error"]
    assert model.failures == 2


ODD = {
    "deep nesting": "x = " + "(" * 80 + "1" + ")" * 80 + "\n",
    "recursion": "def f(n):\n    return f(n - 1) if n else 0\nf(10**6)\n",
    "decorators and generators": (
        "import functools\n@functools.lru_cache\ndef f(x):\n    return x\n"
        "def g():\n    yield from range(3)\nprint(f(1), list(g()), *g(), sep=',')\n"
    ),
    "match": "match len(train):\n    case 3:\n        x = 1\n    case _:\n        x = 2\n",
    "async": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\nasyncio.run(f())\n",
    "walrus and star": "if (n := len(train)) > 3:\n    a, *b = range(n)\nprint({**{'a': 1}}, [*b])\n",
    "metaclass": "class M(type):\n    pass\nclass A(metaclass=M):\n    x: int = 3\nprint(A().x)\n",
    "exec and eval": "exec('z = 3')\nprint(eval('1 + 1'))\n",
    "with several": (
        "from contextlib import suppress\nwith suppress(KeyError), open(SUBMISSION_PATH, 'w') as f:\n    f.write('x')\n"
    ),
    "global state": "n = 0\ndef up():\n    global n\n    n += 1\nfor _ in range(5):\n    up()\nassert n == 5\n",
    "closures": """\
def outer():
    n = 0
    def inner():
        nonlocal n
        n += 1
        return n
    return inner
f = outer()
assert f() == 1 and f() == 2
""",
    "torch, which is installed but not looked into": "import torch\nx = torch.nn.Linear(3, 2)(torch.zeros(1, 3))\n",
    "properties of objects": """\
class A:
    @property
    def x(self):
        return 1
    @staticmethod
    def s():
        return 2
print(A().x + A.s())
""",
    "exceptions as control flow": """\
try:
    raise KeyError('a')
except (ValueError, KeyError) as e:
    print(e)
else:
    1 / 0
finally:
    pass
""",
}


@pytest.mark.parametrize("name", ODD)
def test_unusual_python_neither_fails_nor_breaks_the_analysis(name: str, worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, HEAD + ODD[name])
    failing = [v for v in outcome.details.get("verdicts", []) if v["passed"] is False]
    assert outcome.status != "unknown", outcome.details
    assert [v["check"] for v in failing if v["check"] != "submission"] == [], failing


def test_a_fault_on_one_of_two_unknown_branches_is_not_certain(worlds: dict[str, World]) -> None:
    script = HEAD + "import random\nif random.random() > 0.5:\n    x = train['none']\n"
    assert _predict(worlds, script).status == "invalid_submission"


def test_a_fault_on_both_branches_is_certain(worlds: dict[str, World]) -> None:
    script = HEAD + "import random\nif random.random() > 0.5:\n    x = train['none']\nelse:\n    x = train['no']\n"
    assert _predict(worlds, script).status == "runtime_error"


def test_code_that_is_never_called_is_not_judged(worlds: dict[str, World]) -> None:
    assert _predict(worlds, HEAD + "def f():\n    return train['none']\n").status == "invalid_submission"


def test_nothing_of_the_script_is_executed(worlds: dict[str, World], tmp_path: object) -> None:
    marker = f"{tmp_path}/executed"
    _predict(worlds, f"import os\nos.system('touch {marker}')\nopen({marker!r}, 'w').write('x')\nprint(open)\n")
    from pathlib import Path

    assert not Path(marker).exists()


def test_predictions_are_equal_in_every_process(worlds: dict[str, World]) -> None:
    program = (
        "from tests.scriptcheck.worlds import MAKERS\nfrom pathlib import Path\nimport sys\n"
        "from tests.scriptcheck.sound_scripts import SOUND, HEAD\nfrom wmrl_gym.core import Submission\n"
        "from wmrl_gym.world_models.static_analysis import StaticAnalysis\n"
        "o = MAKERS['churn'](Path(sys.argv[1])).overview\n"
        "scripts = [s for w, s in SOUND.values() if w == 'churn']\n"
        "fault = \"from sklearn.svm import SVC\\nSVC(kernel='x').fit(train[['months']], train['left'])\\n\"\n"
        "scripts.append(HEAD + fault)\n"
        "scripts.append(HEAD + \"train[['a', 'b', 'c']]\\n\")\n"
        "for r in StaticAnalysis().predict([Submission('churn', s, {'overview': o}) for s in scripts]):\n"
        "    print(r.status, r.score, r.feedback, r.details)\n"
    )
    folder = str(worlds["churn"].folder.parent / "again")
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, folder],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join(p for p in sys.path if p) + ":."},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and "InvalidParameterError" in outputs.pop()


@pytest.mark.alone
def test_it_takes_milliseconds(worlds: dict[str, World]) -> None:
    import time

    submissions = [Submission(w, s, {"overview": worlds[w].overview}) for w, s in SOUND.values()]
    model = StaticAnalysis()
    model.predict(submissions)
    started = time.process_time()
    model.predict(submissions)
    assert (time.process_time() - started) / len(submissions) < 0.03


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(ValueError, match="bucket"):
        StaticAnalysis(quality="buckets")  # type: ignore[arg-type]
