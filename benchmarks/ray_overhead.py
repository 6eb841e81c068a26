"""What an execution costs more on a Ray cluster than on this machine: ``python benchmarks/ray_overhead.py``.

A cluster of this machine alone and the local executor, two workers each, take turns at the same short scripts in the
same sandbox (`titanic_survival`, which must be prepared), so that a busy machine slows both. Then the same with an
environment that does nothing, where the whole time is overhead.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from functools import partial
from typing import Any

from wmrl_gym.core import Executor, ExpensiveRewardEnv, Outcome, Submission
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.execution.ray.executor import RayExecutor

SCRIPT = """import os, pandas as pd
train, test = (pd.read_csv(os.path.join(DATA_DIR, name)) for name in ("train.csv", "test.csv"))
target = [name for name in train.columns if name not in test.columns][0]
pd.DataFrame({{test.columns[0]: test.iloc[:, 0], target: train[target].mode()[0]}}).to_csv(SUBMISSION_PATH, index=False)
# {number}
"""


class NothingEnv(ExpensiveRewardEnv[Any, Any]):
    def submit(self, action: Any) -> Submission:
        return Submission("nothing", action)

    def execute(self, submission: Submission) -> Outcome:
        return Outcome(1.0, "valid")

    def advance(self, outcome: Outcome | None) -> Any:
        raise AssertionError("no episode is played")


def milliseconds(executor: Executor, submissions: list[Submission]) -> float:
    """Wall-clock time per submission, all handed in at once."""
    begun = time.perf_counter()
    futures = [executor.submit(submission) for submission in submissions]
    assert all(future.result().status == "valid" for future in futures)
    return 1000 * (time.perf_counter() - begun) / len(submissions)


def compare(name: str, make_environment: Any, make: Any, rounds: int, count: int) -> None:
    environment = make_environment()
    executors = {"local": LocalExecutor(environment.execute, 2), "Ray": RayExecutor(make_environment, 2)}
    while executors["Ray"]._standing < 2:  # type: ignore[attr-defined]
        time.sleep(0.1)
    times: dict[str, list[float]] = {which: [] for which in executors}
    for turn in range(-1, rounds):  # the first round warms up
        for which, executor in executors.items():
            took = milliseconds(executor, [make(environment, f"{turn} {which} {i}") for i in range(count)])
            if turn >= 0:
                times[which].append(took)
    for executor in executors.values():
        executor.close()
    local, far = (statistics.median(times[which]) for which in ("local", "Ray"))
    print(f"{name}: {local:.2f} ms locally, {far:.2f} ms on Ray: {far - local:.2f} ms more, ratio {far / local:.3f}")


def script(environment: Any, number: str) -> Submission:
    (name, competition), *_ = environment.competitions.items()
    return Submission(name, SCRIPT.format(number=number), {"overview": competition.overview})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args()
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 * 2**20)
    play = partial(MLEDojoEnv, "titanic_survival", sandbox_start="warm")
    compare("a short script in a warm sandbox", play, script, options.rounds, options.count)
    compare("nothing", NothingEnv, lambda _, number: Submission("nothing", number), options.rounds, 10 * options.count)
    ray.shutdown()


if __name__ == "__main__":
    main()
