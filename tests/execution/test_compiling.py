"""Scripts that exhaust the compiler exhaust a process of their own, and get told so."""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from wmrl_gym.execution import compiling
from wmrl_gym.execution.compiling import compile_problem

ORDINARY = "import pandas as pd\n\nframe = pd.DataFrame({'a': [1, 2]})\nprint(f'{frame.a.sum():.2f}')\n"


def doubled(levels: int, body: str = "pass") -> str:
    """A script whose bytecode doubles with every level."""
    lines = [f"{' ' * level}try: pass\n{' ' * level}finally:\n" for level in range(levels)]
    return "".join(lines) + " " * levels + body + "\n"


def own_peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("levels", [18, 19])
def test_nested_finally_takes_no_memory_of_the_trainer(levels: int) -> None:
    before, started = own_peak_mb(), time.monotonic()
    problem = compile_problem(doubled(levels))
    assert "compiling the script takes more than" in str(problem)  # 512 MB, or on a slow machine 5 s
    assert own_peak_mb() - before < 100
    assert time.monotonic() - started < 60
    assert compile_problem(ORDINARY) is None


def test_returns_that_copy_a_long_finally_are_bounded_as_well() -> None:
    script = "def f():\n try:\n" + "  return\n" * 5000 + " finally:\n  " + "b;" * 20000 + "\n"
    assert "compiling the script takes more than" in str(compile_problem(script))


def test_too_much_processor_time_is_a_fault_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "CPU_SECONDS", 1)
    function = "def f():\n" + "".join(f" {line}\n" for line in doubled(13).splitlines())
    slow = function * 1500  # every function's memory is given back: half a minute of it fits into the limit
    assert compile_problem(slow, "slow.py") == "SyntaxError: compiling the script takes more than 1 s"
    assert compile_problem(ORDINARY, "slow.py") is None


@pytest.mark.parametrize(
    "script",
    ["for x in", "x = '\x00'", "\ud800", "(" * 5000, "9" * 5000, "'a' is 1", "if x:\npass", "é = )", "-" * 90000 + "1",
     "return", "f'{a b}'", "a = " + "b + " * 30000 + "c", "x = 1\r\ny = '\\d'\n", "nonlocal a",
     "from __future__ import x"],
)  # fmt: skip
def test_the_words_are_those_of_compiling_here(script: str) -> None:
    expected = None
    try:
        compile(script, "script.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        expected = "".join(traceback.format_exception_only(error)).rstrip()
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        expected = f"SyntaxError: {str(error) or type(error).__name__}"
    assert compile_problem(script) == expected


def test_a_process_that_was_killed_is_replaced() -> None:
    assert compile_problem(ORDINARY) is None
    for compiler in compiling._idle["script.py"]:
        os.kill(compiler.process.pid, signal.SIGKILL)
        compiler.process.wait()
    assert compile_problem(ORDINARY) is None


def test_a_process_that_stands_still_says_nothing_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile_problem(ORDINARY, "still.py") is None
    (compiler,) = compiling._idle["still.py"]
    os.kill(compiler.process.pid, signal.SIGSTOP)
    monkeypatch.setattr(compiling, "WALL_SECONDS", 0.3)
    with pytest.raises(TimeoutError, match="no answer"):
        compile_problem(ORDINARY, "still.py")
    assert compiler.process.poll() is not None


def test_threads_and_forked_children_do_not_mix_their_answers() -> None:
    scripts = [f"x = {number}\n" * (number % 7) + f"def f{number}(:" for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(compile_problem, scripts))
    assert all(f"def f{number}(:" in str(answer) for number, answer in enumerate(answers))
    child = os.fork()
    if child == 0:
        os._exit(0 if compile_problem(ORDINARY) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert compile_problem(ORDINARY) is None
