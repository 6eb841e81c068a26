"""Really runs the tests' own scripts, all in one process: what became of each is what the analysis must foretell."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_RUNNER = r"""
import json, os, random, sys, traceback, warnings
warnings.simplefilter("ignore")
import numpy as np
jobs = json.load(open(sys.argv[1]))
out = []
for job in jobs:
    os.makedirs(job["scratch"], exist_ok=True)
    os.chdir(job["scratch"])
    path = os.path.join(job["scratch"], "submission.csv")
    os.environ["DATA_DIR"], os.environ["SUBMISSION_PATH"] = job["data"], path
    names = {"__name__": "__main__", "DATA_DIR": job["data"], "SUBMISSION_PATH": path}
    np.random.seed(0)
    random.seed(0)
    sys.stdout = open(os.devnull, "w")
    exception, message, line = None, "", None
    try:
        exec(compile(job["script"], "script.py", "exec"), names)
    except BaseException as error:
        if not (isinstance(error, SystemExit) and not error.code):
            exception, message = type(error).__name__, str(error)
        frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "script.py"]
        line = frames[-1] if frames else None
    sys.stdout = sys.__stdout__
    header = open(path).readline().strip() if os.path.exists(path) else None
    rows = sum(1 for _ in open(path)) - 1 if header is not None else None
    out.append({"exception": exception, "message": message, "line": line, "header": header, "rows": rows})
json.dump(out, open(sys.argv[2], "w"))
"""


@dataclasses.dataclass(frozen=True)
class Reality:
    """What became of a script."""

    exception: str | None
    message: str
    line: int | None
    header: str | None
    """First line of submission.csv, None if it was not written."""
    rows: int | None


def run_for_real(scripts: Sequence[str], folders: Sequence[Path], scratch: Path) -> list[Reality]:
    """Run trusted scripts one after the other in a fresh interpreter."""
    jobs = [
        {"script": script, "data": str(folder), "scratch": str(scratch / str(number))}
        for number, (script, folder) in enumerate(zip(scripts, folders, strict=True))
    ]
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-c", _RUNNER, str(scratch / "jobs.json"), str(scratch / "out.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    subprocess.run(command, check=True, timeout=240, env=environment)
    return [Reality(**row) for row in json.loads((scratch / "out.json").read_text())]
