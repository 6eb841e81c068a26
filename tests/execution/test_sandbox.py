"""What an honest script meets in the sandbox."""

from __future__ import annotations

import os
import pickle
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wmrl_gym.execution.isolation import interpreter_prefixes
from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits, SandboxResult


def run(sandbox: Sandbox, data: Path, script: str) -> SandboxResult:
    return sandbox.run(textwrap.dedent(script), data)


def test_script_reads_data_and_its_submission_comes_back(sandbox: Sandbox, data: Path) -> None:
    result = run(
        sandbox,
        data,
        """
        import os
        assert __name__ == "__main__" and os.getcwd() == "/scratch" and __file__ == "/scratch/script.py"
        assert (DATA_DIR, SUBMISSION_PATH) == (os.environ["DATA_DIR"], os.environ["SUBMISSION_PATH"])
        assert (DATA_DIR, SUBMISSION_PATH) == ("/data", "/scratch/submission.csv")
        rows = open(DATA_DIR + "/train.csv").read()
        print("read", len(rows))
        open(SUBMISSION_PATH, "w").write(rows)
        """,
    )
    assert (result.status, result.returncode, result.stdout, result.stderr) == ("ok", 0, "read 7\n", "")
    assert result.submission == b"id\n1\n2\n" and result.submission_problem is None


def test_open_file_of_a_module_global_is_flushed_at_the_end(sandbox: Sandbox, data: Path) -> None:
    result = run(sandbox, data, "file = open(SUBMISSION_PATH, 'w')\nfile.write('id')")
    assert result.submission == b"id"


def test_exit_handlers_and_threads_finish_before_the_verdict(sandbox: Sandbox, data: Path) -> None:
    result = run(
        sandbox,
        data,
        """
        import atexit, threading, time
        atexit.register(lambda: print("handler"))
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
        """,
    )
    assert result.stdout == "thread\nhandler\n"


def test_traceback_names_the_script_and_shows_no_harness_frame(sandbox: Sandbox, data: Path) -> None:
    result = run(sandbox, data, "def f():\n    return {}['price']\n\nf()\n")
    assert (result.status, result.returncode) == ("error", 1)
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if "File" in line] == [
        '  File "script.py", line 4, in <module>',
        '  File "script.py", line 2, in f',
    ]
    assert "    return {}['price']" in lines and lines[-1] == "KeyError: 'price'"


def test_syntax_error_points_into_the_script(sandbox: Sandbox, data: Path) -> None:
    result = run(sandbox, data, "x = 1\ny = (\n")
    assert result.status == "error"
    assert result.stderr.startswith('  File "script.py", line 2\n') and "SyntaxError" in result.stderr


def test_the_program_that_is_read_is_the_program_that_runs(sandbox: Sandbox, data: Path) -> None:
    """A comment that names an encoding would make code of what any reader takes for comments."""
    script = (
        "# -*- coding: raw_unicode_escape -*-\n# \\u000aprint('hidden'); raise SystemExit\n"
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=print, args=('from the worker',))\n"
        "    worker.start(); worker.join()\n"
        "    print('read', worker.exitcode)\n"
    )
    result = sandbox.run(script, data)
    assert (result.status, result.stdout) == ("ok", "from the worker\nread 0\n"), result.stderr


def test_text_beyond_ascii_needs_no_comment_and_broken_text_is_a_syntax_error(sandbox: Sandbox, data: Path) -> None:
    result = sandbox.run("# coding: latin-1\nprint('größer', len('größer'))\n", data)
    assert result.stdout == "größer 6\n"
    assert "SyntaxError" in sandbox.run("print('\udcff')", data).stderr


@pytest.mark.parametrize(
    ("script", "status", "returncode"),
    [
        ("import sys; sys.exit(0)", "ok", 0),
        ("import sys; sys.exit()", "ok", 0),
        ("import sys; sys.exit(3)", "error", 3),
        ("import sys; sys.exit('text')", "error", 1),
        ("import os; os._exit(7)", "error", 7),
        ("import ctypes; ctypes.string_at(0)", "error", 139),
        ("raise KeyboardInterrupt", "error", 1),
        ("\udcff", "error", 1),
        ("a = 1\0", "error", 1),
        ("", "ok", 0),
    ],
)
def test_every_way_to_end_has_a_verdict(
    sandbox: Sandbox, data: Path, script: str, status: str, returncode: int
) -> None:
    result = sandbox.run(script, data)
    assert (result.status, result.returncode) == (status, returncode)
    if "text" in script:
        assert result.stderr == "text\n"


def test_verdict_is_repeatable_where_the_script_uses_global_generators(sandbox: Sandbox, data: Path) -> None:
    script = "import random, numpy as np; print(random.random(), np.random.rand(), hash('a'))"
    first, second = (sandbox.run(script, data) for _ in range(2))
    assert first.status == "ok" and first.stdout == second.stdout


def test_nothing_of_a_run_is_seen_by_the_next(sandbox: Sandbox, data: Path) -> None:
    sandbox.run(
        "open(SUBMISSION_PATH, 'w').write('stale'); open('/dev/shm/x', 'w'); "
        "import tempfile; open(tempfile.gettempdir() + '/x', 'w')",
        data,
    )
    result = sandbox.run(
        "import os, tempfile as t; print(os.listdir('/scratch'), os.listdir('/dev/shm'), os.listdir(t.gettempdir()))",
        data,
    )
    assert result.stdout == "['script.py', '.tmp'] [] []\n" or result.stdout == "['.tmp', 'script.py'] [] []\n"
    assert result.submission is None and result.submission_problem == "no submission.csv was written"


def test_interpreter_below_tmp_leaves_a_temporary_folder_of_the_scripts_own(
    sandbox: Sandbox, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="wt-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "module.py").write_text("")
        prefixes = [*interpreter_prefixes(), Path(folder)]
        monkeypatch.setattr("wmrl_gym.execution.sandbox.interpreter_prefixes", lambda: prefixes)
        script = f"""
            import os, tempfile
            assert os.listdir({folder!r}) == ["module.py"]
            print(tempfile.gettempdir(), os.environ["TMPDIR"], os.environ["MPLCONFIGDIR"])
            open(tempfile.gettempdir() + "/x", "w")
            """
        result = run(sandbox, data, script)
    assert result.stdout == "/scratch/.tmp /scratch/.tmp /scratch/.tmp\n" and result.status == "ok", result.stderr


@pytest.mark.alone
def test_lines_printed_before_the_deadline_are_kept(data: Path) -> None:
    result = Sandbox(SandboxLimits(wall_seconds=0.5)).run("print('epoch 1')\nimport time; time.sleep(60)", data)
    assert (result.status, result.stdout) == ("timeout", "epoch 1\n")
    assert 0.5 <= result.seconds < 1.5


def test_scientific_stack_and_worker_processes_work(data: Path) -> None:
    result = run(
        Sandbox(SandboxLimits(wall_seconds=60.0)),
        data,
        """
        import multiprocessing, os
        import numpy, pandas
        from sklearn.ensemble import RandomForestClassifier

        def square(x):
            return x * x

        if __name__ == "__main__":
            X = numpy.random.rand(60, 3)
            model = RandomForestClassifier(5, n_jobs=2).fit(X, X[:, 0] > 0.5)
            with multiprocessing.Pool(2) as pool:
                assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
            with open("/proc/self/status") as file:
                threads = [line for line in file if line.startswith("Threads")]
            pandas.DataFrame({"id": [1], "p": model.predict(X[:1])}).to_csv(SUBMISSION_PATH, index=False)
        """,
    )
    assert result.status == "ok", result.stderr
    assert result.submission is not None and result.submission.startswith(b"id,p\n1,")


def test_pickled_sandbox_runs_from_many_threads(sandbox: Sandbox, data: Path) -> None:
    copy = pickle.loads(pickle.dumps(sandbox))
    assert copy.limits == sandbox.limits
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: copy.run(f"print({i})", data), range(12)))
    assert [result.stdout for result in results] == [f"{i}\n" for i in range(12)]


def test_hidden_package_data_is_not_there(data: Path) -> None:
    import sklearn

    hidden = Path(sklearn.__file__).parent / "datasets" / "data"
    sandbox = Sandbox(hide=[hidden])
    result = sandbox.run(f"import os; print(os.listdir({str(hidden)!r})); import sklearn.datasets", data)
    assert result.status == "ok" and result.stdout == "[]\n"


def test_what_is_hidden_is_hidden_under_every_name_of_its_environment(
    sandbox: Sandbox, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="wt-", dir="/var/tmp") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "real" / "env" / "package").mkdir(parents=True)
        (root / "real" / "env" / "package" / "answers.csv").write_text("secret")
        (root / "alias").symlink_to("real")  # a folder above is a link
        (root / "link").symlink_to("real/env")  # the environment itself is one
        shown = [root / "real" / "env", root / "alias" / "env", root / "link"]
        monkeypatch.setattr(
            "wmrl_gym.execution.sandbox.interpreter_prefixes", lambda: [*interpreter_prefixes(), *shown]
        )
        for named in shown:
            hiding = Sandbox(hide=[named / "package" / "answers.csv"])
            names = [str(prefix / "package" / "answers.csv") for prefix in shown]
            script = f"""
                for name in {names!r}:
                    try:
                        print(repr(open(name).read()))
                    except PermissionError:
                        print("hidden")
                """
            assert run(hiding, data, script).stdout == "hidden\nhidden\nhidden\n"


def test_missing_data_directory_is_named(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere"):
        sandbox.run("", tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user owns what its scripts read")
def test_data_that_the_script_could_not_read_is_refused_with_the_remedy(sandbox: Sandbox, data: Path) -> None:
    (data / "train.csv").chmod(0o600)
    with pytest.raises(PermissionError, match=r"train.csv(.|\n)*chmod -R a\+rX"):
        sandbox.run("", data)


def test_data_that_scripts_could_read_anyway_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(PermissionError, match="WMRL_DATA_ROOT"):
        sandbox.run("", "/usr/share")
