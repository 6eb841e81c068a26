"""Commands, their help, and what the user sees when one fails."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from wmrl_gym.version import __version__

DEBUG_VARIABLE = "WMRL_DEBUG"

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `wmrl` command.

    Returns:
        The exit code: 0, 2 for a mistake that can be put right, 130 after Ctrl-C.
    """
    parser = build_parser()
    options, rest = parser.parse_known_args(arguments)
    # argparse ends a list of positionals at the first option: overrides after one are left over.
    if rest and hasattr(options, "overrides") and all("=" in item and not item.startswith("-") for item in rest):
        options.overrides += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    # One thread for BLAS and OpenMP unless the user says otherwise; set before numpy or torch come in.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        return int(options.run(options) or 0)
    except KeyboardInterrupt:
        print("wmrl: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        print(error_text(error), file=sys.stderr)
        return 2


def error_text(error: Exception) -> str:
    """What a failed command prints: our own messages as they are, others with their type, always one prefix."""
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    message = message.removeprefix("wmrl: ").strip()
    if not _is_ours(error):
        message = f"{type(error).__name__}: {message}" if message else type(error).__name__
        message += f"\n  unexpected; {DEBUG_VARIABLE}=1 shows where it happened"
    return f"wmrl: {message}"


def _is_ours(error: Exception) -> bool:
    """Whether the message was written for the user: our own class, or raised by our own code."""
    if type(error).__module__.startswith("wmrl_gym"):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).resolve().parents[1])
    written_for_users = (ValueError, ImportError, OSError, LookupError, RuntimeError)
    return bool(frames) and frames[-1].filename.startswith(package) and isinstance(error, written_for_users)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Their code is imported when they run, so that help comes at once."""
    parser = argparse.ArgumentParser(
        prog="wmrl",
        description="Train agents whose reward is expensive: a world model scores most trajectories, a thin stream of "
        "real executions corrects it.",
        epilog=f"Set {DEBUG_VARIABLE}=1 to see a traceback with an error.",
    )
    parser.add_argument("--version", action="version", version=f"wmrl_gym {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_train(commands)
    _add_sft(commands)
    _add_evaluate(commands)
    _add_corpus(commands)
    _add_fidelity(commands)
    _add_report(commands)
    _add_compare(commands)
    _add_competitions(commands)
    doctor = commands.add_parser(
        "doctor",
        help="what works on this machine",
        description="Say what works on this machine: isolation (really tried), cores and memory, GPU, optional "
        "packages, prepared competitions. Exit code 0 if the quickstart can run.",
    )
    doctor.set_defaults(run=_doctor)
    return parser


def _add_configured(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, help: str, description: str, epilog: str
) -> None:
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="group=member or key.key=value")
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="your own groups, searched beside the built-in")
    parser.add_argument("--list", action="store_true", help="show the groups and their members, and stop")
    parser.add_argument("--show", action="store_true", help="show the resolved configuration, and stop")
    parser.set_defaults(run=_configured, command=name)


def _add_train(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_configured(
        commands,
        "train",
        help="train an agent",
        description="Train an agent with WMRL-GRPO or one of its baselines; everything goes to runs/<name>.",
        epilog=TRAIN_HELP,
    )


def _add_sft(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_configured(
        commands,
        "sft",
        help="cold-start an agent by supervised fine-tuning",
        description="Cold-start the nano agent, or the one of `policy`, on generated solutions, and save it.",
        epilog="Example:\n  wmrl sft output=my_agent\n  wmrl train experiment=quickstart policy.directory=my_agent\n",
    )


def _add_evaluate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_configured(
        commands,
        "evaluate",
        help="measure an agent on held-out competitions",
        description="Run an agent on held-out competitions, everything really executed, and print avg@k.",
        epilog="Examples:\n  wmrl evaluate\n  wmrl evaluate run=runs/quickstart-... evaluation.samples=16\n",
    )


def _add_corpus(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_configured(
        commands,
        "corpus",
        help="write and execute solutions, for measuring world models",
        description="Let several authors write solutions of the competitions, really execute them, and write it all "
        "down. An interrupted call goes on where it was.",
        epilog="Examples:\n  wmrl corpus output=solutions.jsonl.gz count=500\n"
        "  wmrl corpus output=others.jsonl.gz authors.generator=0 authors.agent=1 agent.temperatures=[1.5]\n",
    )


def _add_fidelity(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_configured(
        commands,
        "fidelity",
        help="measure a world model against executed solutions",
        description="Let a world model predict executed solutions, and report how well it does: JSON, Markdown and a "
        "plot. An interrupted call goes on where it was.",
        epilog="Examples:\n  wmrl fidelity corpus=solutions.jsonl.gz\n"
        "  wmrl fidelity corpus=solutions.jsonl.gz world_model=llm_static_checker world_model.engine.path=some/model\n",
    )


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        help="show runs in one HTML file",
        description="Write runs as one HTML file that opens from disk without a network: learning curves, calibration, "
        "the world model's accuracy, times, tables, and the trajectories to read. Several runs of an experiment are "
        "averaged, with intervals over seeds.",
        epilog="Examples:\n  wmrl report runs/quickstart-...\n  wmrl report runs/quickstart-* --output all.html\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a run")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: report.html in the run's folder, or here for several runs"
    )
    parser.add_argument(
        "--trajectories", type=int, metavar="N", help="put in at most so many, executed ones first (default: 4000)"
    )
    parser.set_defaults(run=_report)


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add_configured(
        commands,
        "compare",
        help="train arms of an experiment side by side",
        description="Train several arms of an experiment on the same seeds, taking turns, and compare their held-out "
        "scores and their costs. Stopped or killed, the same command goes on.",
        epilog=COMPARE_HELP,
    )


def _add_competitions(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "competitions",
        help="list or prepare the bundled competitions",
        description="The bundled competitions: real data that ships inside Python packages, nothing is downloaded.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="names, kinds, metrics, and which are prepared")
    preparing = actions.add_parser("prepare", help="write competitions in MLE-Dojo's layout (all, or those named)")
    preparing.add_argument("names", nargs="*", metavar="NAME", help="which to prepare (default: all)")
    for action, run in ((listing, _competitions_list), (preparing, _competitions_prepare)):
        action.add_argument(
            "--data-root",
            type=Path,
            metavar="DIR",
            help="where they lie (default: $WMRL_DATA_ROOT, else ~/.cache/wmrl_gym/competitions)",
        )
        action.set_defaults(run=run)


def _configured(options: argparse.Namespace) -> int:
    from wmrl_gym.cli.configured import run_configured

    return run_configured(options)


def _report(options: argparse.Namespace) -> int:
    from wmrl_gym.cli.report import report

    return report(options.runs, options.output, options.trajectories)


def _doctor(options: argparse.Namespace) -> int:
    from wmrl_gym.cli.doctor import doctor

    return doctor()


def _competitions_list(options: argparse.Namespace) -> int:
    from wmrl_gym.cli.competitions import list_competitions

    return list_competitions(options.data_root)


def _competitions_prepare(options: argparse.Namespace) -> int:
    from wmrl_gym.cli.competitions import prepare_competitions

    return prepare_competitions(options.names, options.data_root)
