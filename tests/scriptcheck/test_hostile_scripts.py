"""Scripts that would hang the process that judges them, or fill its memory: each is judged in a bounded process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scriptcheck.worlds import World
from wmrl_gym.core import Submission
from wmrl_gym.scriptcheck.limits import MAX_SOURCE
from wmrl_gym.scriptcheck.values import Const
from wmrl_gym.scriptcheck.walk.interpreter import Interpreter
from wmrl_gym.world_models.static_analysis import StaticAnalysis

_SECONDS = 20
_BYTES = 3 << 30
_ROOT = Path(__file__).parents[2]

# The clock starts after the imports, which take seconds on a busy machine and are no script's fault.
_JUDGE = f"""
import faulthandler, resource, sys
from pathlib import Path
from tests.scriptcheck.worlds import houses
from wmrl_gym.core import Submission
from wmrl_gym.world_models.static_analysis import StaticAnalysis
from wmrl_gym.scriptcheck.semantics import all_models

all_models()
overview = houses(Path(sys.argv[1])).overview
resource.setrlimit(resource.RLIMIT_AS, ({_BYTES}, {_BYTES}))
for script in sys.stdin.read().split("\\0"):
    faulthandler.dump_traceback_later({_SECONDS}, exit=True)
    model = StaticAnalysis()
    outcome = model.predict([Submission("houses", script, {{"overview": overview}})])[0]
    faulthandler.cancel_dump_traceback_later()
    error = outcome.details.get("analysis_error")
    assert error is None, (error, script[:200])
    print(outcome.status)
"""

_LOOP = "for i in range(60):\n    "
HOSTILE = {
    "f-string width": "x = f'{1:>5000000000}'",
    "f-string precision": "x = f'{1.5:.2000000000f}'",
    "f-string nested width": "w = 5000000000\nx = f'{1:>{w}}'",
    "percent width": "x = '%5000000000d' % 1",
    "percent star": "x = '%*d' % (2000000000, 1)",
    "percent key": "x = '%(a)5000000000d' % {'a': 1}",
    "percent bytes": "x = b'%5000000000d' % 1",
    "format width": "x = '{:400000000}'.format(1)",
    "format nested width": "x = '{:{}}'.format(1, 400000000)",
    "format glued width": "x = '{:{0}{0}{0}}'.format(99999)\ny = '{0:{1}{1}}'.format(7, 99999)",
    "format dunder": "x = (1).__format__('>5000000000')",
    "zfill": "x = '1'.zfill(400000000)",
    "rjust": "x = '1'.rjust(4000000000)",
    "ljust": "x = '1'.ljust(4000000000)",
    "center": "x = b'1'.center(4000000000)",
    "expandtabs": "x = '\\t'.expandtabs(2000000000)",
    "to_bytes": "x = (1).to_bytes(4000000000, 'big')",
    "operator method": "x = 'a'.__mul__(4000000000)",
    "power method": "x = (7).__pow__(1000000000)",
    "round": "x = round(5, -1000000000)",
    "factorial": "import math\nx = math.factorial(1000000)",
    "integers": f"x = 7\n{_LOOP}x = x * x * x",
    "powers": f"x = 7\n{_LOOP}x = x ** 900",
    "string": f"x = 'ab'\n{_LOOP}x = x + x",
    "bytes": f"x = b'ab'\n{_LOOP}x = x + x",
    "list": f"x = [1, 2]\n{_LOOP}x = x + x",
    "list in place": f"x = [1, 2]\n{_LOOP}x += x",
    "tuple": f"x = (1, 2)\n{_LOOP}x = x + x",
    "nested tuple": f"x = (1, 2)\n{_LOOP}x = (x, x)\ny = x == 3",
    "spread": f"x = [1, 2]\n{_LOOP}x = [*x, *x]",
    "arguments": "x = list(range(10000))\nprint(" + "*x, " * 10000 + ")",
    "replace": f"x = 'a'\n{_LOOP}x = x.replace('a', 'aa')",
    "replace nothing": f"x = 'a'\n{_LOOP}x = x.replace('', x)",
    "join": f"x = 'ab'\n{_LOOP}x = x.join((x, x))",
    "join bytes": f"x = b'ab'\n{_LOOP}x = x.join((x, x))",
    "percent": f"x = 'ab'\n{_LOOP}x = '%s%s' % (x, x)",
    "f-string": f"x = 'ab'\n{_LOOP}x = f'{{x}}{{x}}'",
    "f-string many": "x = 'ab' * 5000\ny = f'" + "{x:s}" * 15000 + "'",
    "format": f"x = 'ab'\n{_LOOP}x = '{{}}{{}}'.format(x, x)",
    "paths": f"import os\nx = 'ab'\n{_LOOP}x = os.path.join(x, x)",
    "unknown text": f"import os\nx = str(len(os.listdir('.')))\n{_LOOP}x = x + x",
    "parameter grid": "from sklearn.model_selection import ParameterGrid\n"
    "x = list(ParameterGrid({f'a{i}': list(range(100)) for i in range(20)}))\nn = len(x)",
    "products": "import itertools\nx = list(itertools.product(range(100), repeat=20))\n"
    "y = list(itertools.permutations(range(100)))",
    "zip": "x = list(range(10000))\ny = list(zip(" + "x, " * 20000 + "))",
}


def test_no_script_hangs_the_judge_or_fills_its_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _JUDGE, str(tmp_path)],
        input="\0".join(HOSTILE.values()),
        capture_output=True,
        text=True,
        cwd=_ROOT,
        timeout=600,
    )
    judged = len(done.stdout.splitlines())
    culprit = list(HOSTILE)[min(judged, len(HOSTILE) - 1)]
    assert done.returncode == 0 and judged == len(HOSTILE), f"{culprit}: {done.stderr[-3000:]}"


def test_a_script_too_long_to_parse_has_no_score(worlds: dict[str, World]) -> None:
    submission = Submission("houses", "x=1\n" * 250_000, {"overview": worlds["houses"].overview})
    outcome = StaticAnalysis().predict([submission])[0]
    assert outcome.score is None and outcome.status == "unknown" and outcome.seconds < 5
    assert all(str(MAX_SOURCE) in verdict["reason"] for verdict in outcome.details["verdicts"])


def test_a_script_that_takes_too_long_has_no_score(worlds: dict[str, World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmrl_gym.scriptcheck.limits.MAX_SECONDS", 0.0)
    script = "x = 1\n" * 300
    outcome = StaticAnalysis().predict([Submission("houses", script, {"overview": worlds["houses"].overview})])[0]
    assert outcome.score is None and "took more than" in outcome.details["verdicts"][0]["reason"]


@pytest.mark.parametrize(
    "expression",
    [
        "f'{1:>5}|{2.5:.2f}|{3:03d}'",
        "f'{1:>{6}}'",
        "'%5d|%-4s|%.3f' % (1, 'a', 2.5)",
        "'%*d' % (6, 1)",
        "'run 20230115 %s' % 'a'",
        "b'%3d' % 7",
        "'{:>8}|{:.3f}|{{}}'.format('a', 1.5)",
        "'{:{}.{}f}'.format(1.25, 10, 2)",
        "'7'.zfill(5) + 'a'.rjust(3) + 'b'.ljust(3) + 'c'.center(5)",
        "'aba'.replace('a', 'xyz')",
        "'a\\tb'.expandtabs(4)",
        "'naïve'.encode('utf-8')",
        "'-' * 80",
        "7 ** 20 * 3",
        "round(2.567, 2)",
    ],
)
def test_ordinary_constants_are_still_computed(expression: str) -> None:
    import ast

    from wmrl_gym.scriptcheck.semantics import all_models

    found = Interpreter(all_models(), None).eval(ast.parse(expression, mode="eval").body)
    assert found == Const(eval(expression))
