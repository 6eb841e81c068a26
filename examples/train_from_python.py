"""The quickstart from Python: what `wmrl train experiment=quickstart` does, and its result as objects.

Run it with `python examples/train_from_python.py`, after `wmrl competitions prepare`; overrides may follow, for example
`experiment=smoke seed=1`.
"""

import sys

from wmrl_gym.runs import TrainingRun


class Printed:
    def stage(self, text):
        print(text)

    def step(self, step, metrics):
        print(f"step {step + 1}: reward {metrics['reward']:.3f}, executed {metrics['executed_share']:.0%}")


run = TrainingRun.from_config(sys.argv[1:] or ["experiment=quickstart"])
run.train(Printed())
before, after = (run.evaluation(when).task_scores() for when in ("before", "after"))
for task in after:
    print(f"{task}: {before[task]:.1%} -> {after[task]:.1%}")
print(f"everything of it is in {run.directory.path}; again: TrainingRun.resume({str(run.directory.path)!r})")
