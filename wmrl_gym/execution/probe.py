"""Does isolation hold on this machine? Found out by trying, not by asking for versions."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import socket
import tempfile
from pathlib import Path
from typing import Literal

from wmrl_gym.execution.isolation import SandboxUnavailable, remedy
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.execution.sandbox import Sandbox

SCIENTIFIC_STACK = ("numpy", "pandas", "sklearn")

PROBE_SCRIPT = """
import importlib, json, os, socket, sys

stack, port, secret, home = {stack!r}, {port!r}, {secret!r}, {home!r}
found = dict(imports=dict(), leaks=[])
for name in stack:
    try:
        found["imports"][name] = importlib.import_module(name).__version__
    except Exception as error:
        found["imports"][name] = "failed: " + repr(error)
try:
    socket.create_connection(("127.0.0.1", port), timeout=2).close()
    found["leaks"].append("the network of the host is reachable")
except OSError:
    pass
for name in ("/proc/1/environ", "/proc/self/environ"):
    try:
        if secret in open(name).read():
            found["leaks"].append("the environment of the trainer is readable in " + name)
    except OSError:
        pass
for top in (DATA_DIR + "/..", home):
    for folder, _, files in os.walk(top):
        if folder.startswith(top + "/proc") or folder.startswith(top + "/usr"):
            continue
        if "probe_answers.csv" in files:
            found["leaks"].append("private answers are readable in " + folder)
for name in (DATA_DIR + "/new", "/usr/new", "/new", sys.prefix + "/new"):
    try:
        open(name, "w")
        found["leaks"].append("scripts can write " + name)
    except OSError:
        pass
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
if int(status["CapEff"], 16) or int(status["CapPrm"], 16):
    found["leaks"].append("scripts hold capabilities: " + status["CapEff"].strip())
if int(status["NoNewPrivs"]) != 1:
    found["leaks"].append("scripts may gain privileges")
found["data"] = open(DATA_DIR + "/train.csv").read()
open(SUBMISSION_PATH, "w").write(json.dumps(found))
"""


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """What a working sandbox said about itself."""

    versions: dict[str, str]
    """Version of each package of the scientific stack, imported inside."""

    memory_limited_by: str
    """See `SandboxResult.memory_limited_by`."""

    seconds: float
    """Wall-clock seconds, imports included."""


def probe(start: Literal["fresh", "warm"] = "fresh") -> ProbeReport:
    """Try on this machine whether scripts run and are isolated: one of them tries to reach what it must not.

    It takes about two seconds. There is no weaker fallback.

    Raises:
        SandboxUnavailable: if scripts cannot be run, or not be isolated, with the remedy.
    """
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="wmrl-probe-") as folder, socket.socket() as listener:
        home = Path(folder)
        home.chmod(0o755)
        for part in ("public", "private"):
            (home / part).mkdir(mode=0o755)
        (home / "public/train.csv").write_text("id\n1\n")
        (home / "private/probe_answers.csv").write_text("id\n1\n")
        for path in home.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the umask is
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        script = PROBE_SCRIPT.format(
            stack=SCIENTIFIC_STACK, port=listener.getsockname()[1], secret=secret, home=str(home)
        )
        os.environ["WMRL_PROBE_SECRET"] = secret
        try:
            result = Sandbox(SandboxLimits(wall_seconds=60.0), start=start).run(script, home / "public")
        finally:
            del os.environ["WMRL_PROBE_SECRET"]
    if result.status == "infrastructure_error":
        message = result.killed_because or result.stderr
        raise SandboxUnavailable(message if message.startswith("wmrl:") else remedy(message))
    if result.status != "ok" or result.submission is None:
        raise SandboxUnavailable(
            f"wmrl: a trial script did not finish in the sandbox: {result.status} {result.killed_because or ''}\n"
            f"  its last words: {result.stderr.strip()[-800:] or result.submission_problem}"
        )
    found = json.loads(result.submission)
    _judge(found)
    return ProbeReport(found["imports"], result.memory_limited_by, result.seconds)


def _judge(found: dict[str, object]) -> None:
    imports, leaks = found["imports"], found["leaks"]
    if leaks:
        raise SandboxUnavailable(f"wmrl: isolation does not hold on this machine\n  {leaks}\n  scripts are not run.")
    assert isinstance(imports, dict)
    broken = {name: reason for name, reason in imports.items() if reason.startswith("failed")}
    if broken:
        raise SandboxUnavailable(
            f"wmrl: scripts cannot import the scientific stack\n  {broken}\n"
            "  install it into the environment that runs the trainer: pip install numpy pandas scikit-learn."
        )
