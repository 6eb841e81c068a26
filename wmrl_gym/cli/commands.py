"""The table of commands: what each is called, how its help reads, and which function does it.

The functions are named and not imported, so that help comes at once: a command's code is imported when it runs.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TRAIN_HELP = """\
Overrides are Hydra's: group=member chooses, key.key=value sets. Examples:
  wmrl train experiment=quickstart
  wmrl train experiment=quickstart seed=1 algorithm.learning_rate=2e-4
  wmrl train experiment=quickstart proxy=no_debias
  wmrl train experiment=mine --config-dir my_configs
  wmrl train resume=runs/quickstart-20260102-030405-s0
A misspelt key is an error that names the nearest right one. `wmrl train --list` shows the groups and their members.
"""


COMPARE_HELP = """\
Examples:
  wmrl compare experiment=quickstart seeds=[0,1,2]
  wmrl compare experiment=quickstart only=[grpo,wmrl] algorithm.steps=20
  wmrl compare experiment=quickstart sweep.proxy.anchors.fraction=[0.02,0.1,0.5,1.0] proxy.anchors.min_per_step=0
  wmrl compare experiment=quickstart 'arms.mine=["proxy.anchors.fraction=0.3"]' only=[grpo,mine] folder=runs/mine
`wmrl compare --show` with the same words shows the arms without running them. See docs/comparison.md.
"""


@dataclass(frozen=True)
class Command:
    """One command of `wmrl`."""

    name: str
    help: str
    """One line, for the list of commands."""
    description: str
    run: str
    """The function, as "module.function" below `wmrl_gym.cli`: takes the parsed options, returns the exit code."""
    epilog: str | None = None
    arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    """Adds the command's own arguments."""
    actions: tuple[Command, ...] = ()
    """Commands below this one; then it does nothing by itself."""

    def add_to(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Make its parser."""
        parser = commands.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            epilog=self.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter if self.epilog else argparse.HelpFormatter,
        )
        if self.actions:
            below = parser.add_subparsers(metavar="ACTION", required=True)
            for action in self.actions:
                action.add_to(below)
            return
        self.arguments(parser)
        parser.set_defaults(run=self._function, command=self.name)

    def _function(self, options: argparse.Namespace) -> int:
        module, _, function = self.run.rpartition(".")
        code: int = getattr(importlib.import_module(f"wmrl_gym.cli.{module}"), function)(options)
        return code


def _overrides(parser: argparse.ArgumentParser) -> None:
    """Arguments of the commands that take a configuration."""
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="group=member or key.key=value")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="your own groups, searched beside the built-in")
    parser.add_argument("--list", action="store_true", help="show the groups and their members, and stop")
    parser.add_argument("--show", action="store_true", help="show the resolved configuration, and stop")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: report.html in the run's folder, or here for several runs"
    )
    parser.add_argument(
        "--trajectories", type=int, metavar="N", help="put in at most so many, executed ones first (default: 4000)"
    )


def _data_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-root",
        type=Path,
        metavar="DIR",
        help="where they lie (default: $WMRL_DATA_ROOT, else ~/.cache/wmrl_gym/competitions)",
    )


def _prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to prepare (default: all)")
    _data_root(parser)


COMMANDS: tuple[Command, ...] = (
    Command(
        "train",
        "train an agent",
        "Train an agent with WMRL-GRPO or one of its baselines; everything goes to runs/<name>.",
        "train.run",
        TRAIN_HELP,
        _overrides,
    ),
    Command(
        "sft",
        "cold-start an agent by supervised fine-tuning",
        "Cold-start the nano agent, or the one of `policy`, on generated solutions, and save it.",
        "sft.run",
        "Example:\n  wmrl sft output=my_agent\n  wmrl train experiment=quickstart policy.directory=my_agent\n",
        _overrides,
    ),
    Command(
        "evaluate",
        "measure an agent on held-out tasks",
        "Run an agent on held-out tasks, everything really executed, and print avg@k.",
        "evaluate.run",
        "Examples:\n  wmrl evaluate\n  wmrl evaluate run=runs/quickstart-... evaluation.samples=16\n",
        _overrides,
    ),
    Command(
        "export",
        "write a trained agent for transformers, vLLM and TRL",
        "Write the agent of a run as a folder in Hugging Face's layout, with its tokenizer, where its answers end, and "
        "a card that says what it was trained on. The run itself is only read.",
        "export.run",
        "Examples:\n  wmrl export run=runs/quickstart-... output=my_model\n"
        "  wmrl export run=runs/mine-... output=my_adapter merge=false\n"
        "  wmrl export run=runs/mine-... output=my_model checkpoint=120 dtype=bfloat16\n",
        _overrides,
    ),
    Command(
        "corpus",
        "write and execute solutions, for measuring world models",
        "Let several authors write solutions of the competitions, really execute them, and write it all down. An "
        "interrupted call goes on where it was.",
        "corpus.run",
        "Examples:\n  wmrl corpus output=solutions.jsonl.gz count=500\n"
        "  wmrl corpus output=others.jsonl.gz authors.generator=0 authors.agent=1 agent.temperatures=[1.5]\n",
        _overrides,
    ),
    Command(
        "fidelity",
        "measure a world model against executed solutions",
        "Let a world model predict executed solutions, and report how well it does: JSON, Markdown and a plot. An "
        "interrupted call goes on where it was.",
        "fidelity.run",
        "Examples:\n  wmrl fidelity corpus=solutions.jsonl.gz\n"
        "  wmrl fidelity corpus=solutions.jsonl.gz world_model=llm_static_checker world_model.engine.path=some/model\n",
        _overrides,
    ),
    Command(
        "report",
        "show runs in one HTML file",
        "Write runs as one HTML file that opens from disk without a network: learning curves, calibration, the world "
        "model's accuracy, times, tables, and the trajectories to read. Several runs of an experiment are averaged, "
        "with intervals over seeds.",
        "report.run",
        "Examples:\n  wmrl report runs/quickstart-...\n  wmrl report runs/quickstart-* --output all.html\n",
        _report,
    ),
    Command(
        "compare",
        "train arms of an experiment side by side",
        "Train several arms of an experiment on the same seeds, taking turns, and compare their held-out scores and "
        "their costs. Stopped or killed, the same command goes on.",
        "compare.run",
        COMPARE_HELP,
        _overrides,
    ),
    Command(
        "plan",
        "how long a run takes, what it costs, and where it waits",
        "Simulate the steps of a run: how long one takes, what the run costs, and where trajectories wait, for several "
        "anchor fractions and numbers of sandbox slots. See docs/scaling.md.",
        "plan.run",
        "Examples:\n  wmrl plan\n  wmrl plan run=runs/quickstart-... slots=[1,2,4]\n"
        "  wmrl plan capacity=cluster simulated_steps=3 fractions=[0.1,1.0] mode=late\n",
        _overrides,
    ),
    Command(
        "serve",
        "the proxy as an HTTP service for another trainer",
        "Answer over HTTP what trajectories are worth: all are predicted, anchors executed. Needs wmrl-gym[serve]. "
        "Stopped or killed, the same command goes on.",
        "serve.run",
        "Examples:\n  wmrl serve experiment=quickstart port=8080\n"
        "  wmrl serve experiment=quickstart host=0.0.0.0 token_file=token.txt state=my_state\n",
        _overrides,
    ),
    Command(
        "competitions",
        "list or prepare the bundled competitions",
        "The bundled competitions: real data that ships inside Python packages, nothing is downloaded.",
        "",
        actions=(
            Command(
                "list",
                "names, kinds, metrics, and which are prepared",
                "Show the bundled competitions.",
                "competitions.run_list",
                arguments=_data_root,
            ),
            Command(
                "prepare",
                "write competitions in MLE-Dojo's layout (all, or those named)",
                "Write competitions to disk. Those that are there and up to date are left alone.",
                "competitions.run_prepare",
                arguments=_prepare,
            ),
        ),
    ),
    Command(
        "doctor",
        "what works on this machine",
        "Say what works on this machine: isolation (really tried), cores and memory, GPU, optional packages, prepared "
        "competitions. Exit code 0 if the quickstart can run.",
        "doctor.run",
    ),
)
