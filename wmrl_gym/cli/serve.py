"""``wmrl serve``: the proxy as an HTTP service for any other trainer."""

from __future__ import annotations

import argparse
from typing import Any

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.runs.serving import Serving


def serve(plain: dict[str, Any]) -> int:
    """Serve until a signal. Returns the exit code."""
    serving = Serving.from_config(plain)
    print(f"state: {serving.config.state}", flush=True)
    serving.run(lambda url: print(f"serving on {url}", flush=True))
    print("stopped; the same command goes on from here", flush=True)
    return 0


def run(options: argparse.Namespace) -> int:
    """``wmrl serve``."""
    return run_configured(options, serve)
