"""What can only be seen on a GPU, in at most eight minutes: ``python benchmarks/gpu_smoke.py``.

Each check is a process of its own with a time of its own, so that none ends or disturbs another. Models have random
weights and nothing is downloaded. With vLLM in the environment, three checks run it beside the trainer; else they are
skipped. ``--device cpu --tiny`` runs the same checks in a minute, to see that they work; it says nothing about a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import platform
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import wmrl_gym.algorithms.policy_update  # noqa: F401  (loaded once, before processes are forked)
from wmrl_gym.core import Decision, Trajectory, Turn

SHAPES: dict[str, dict[str, int]] = {
    "tiny": {"vocab_size": 2048, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
             "num_attention_heads": 2, "num_key_value_heads": 1},
    "0.5B": {"vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
             "num_attention_heads": 14, "num_key_value_heads": 2},
    "1.5B": {"vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
             "num_attention_heads": 12, "num_key_value_heads": 2},
}  # fmt: skip
SECONDS = 480.0
"""Of all checks together."""
GIB = 2**30


@dataclass(frozen=True)
class Setup:
    """On what the checks run."""

    device: str
    size: str
    prompt: int
    answer: int
    episodes: int = 4

    @property
    def compute_dtype(self) -> str:
        return "bfloat16"


@dataclass
class Result:
    """What a check found. `passed` is None where it could not be run."""

    check: str
    passed: bool | None
    found: str
    seconds: float = 0.0
    numbers: dict[str, float] = field(default_factory=dict)


def new_model(setup: Setup) -> Any:
    """A Qwen2 of random weights, in float32."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        # vLLM on a CPU does not take a tied output layer anew, and is refused.
        "qwen2", tie_word_embeddings=setup.device != "cpu", max_position_embeddings=4096, eos_token_id=1,
        bos_token_id=None, **SHAPES[setup.size],
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def new_policy(setup: Setup, model: Any = None, *, compute_dtype: str | None = None) -> Any:
    from wmrl_gym.policies.causal_lm import CausalLMPolicy

    model = new_model(setup) if model is None else model
    return CausalLMPolicy(
        model, tokenizer(), setup.answer, chat=False, device=setup.device, compute_dtype=compute_dtype
    )  # fmt: skip


def tokenizer() -> Any:
    from transformers import AutoTokenizer

    from wmrl_gym.policies.nano import NANO_DIRECTORY

    return AutoTokenizer.from_pretrained(NANO_DIRECTORY)


def play(policy: Any, setup: Setup, step: int = 0) -> list[Decision]:
    """Answers of one group."""
    asked = ["predict who survived " * 4] * setup.episodes
    return policy.act(asked, histories=[[]] * setup.episodes, seeds=[(step, i) for i in range(setup.episodes)])


def learnable(decisions: Sequence[Decision]) -> list[tuple[Trajectory, float]]:
    signs = [1.0 if i % 2 else -1.0 for i in range(len(decisions))]
    return [
        (Trajectory((Turn(d, None, None, None, 0.0),), None, None), a) for d, a in zip(decisions, signs, strict=True)
    ]


def made_up(setup: Setup) -> list[Decision]:
    """Episodes of one group of exact lengths, which nobody played."""
    rng, vocabulary = np.random.default_rng(0), SHAPES[setup.size]["vocab_size"]
    prompt = rng.integers(2, vocabulary, size=setup.prompt)
    nothing = np.zeros(setup.answer, np.float32)
    return [
        Decision("", "", prompt, rng.integers(2, vocabulary, size=setup.answer), nothing) for _ in range(setup.episodes)
    ]


def new_update(policy: Any, learning_rate: float) -> Any:
    from wmrl_gym.algorithms.grpo import GRPOSettings
    from wmrl_gym.algorithms.policy_update import PolicyUpdate

    return PolicyUpdate(policy, None, GRPOSettings(kl_coefficient=0.0), learning_rate=learning_rate)


def precision(setup: Setup) -> Result:
    """Computing in bfloat16, float32 weights move at the paper's learning rate."""
    policy = new_policy(setup, compute_dtype=setup.compute_dtype)
    update = new_update(policy, 1e-6)
    shares = [update.update(learnable(play(policy, setup, step)), (step,))["weights_changed"] for step in range(3)]
    share = min(shares)
    return Result("", share > 0.5, f"{share:.1%} of the weights moved in the worst of 3 updates", 0, {"share": share})


def chunked(setup: Setup) -> Result:
    """Log-probabilities by parts, with the prompt run once, are those of plain forward passes."""
    import torch

    policy, decisions = new_policy(setup), made_up(setup)
    with torch.no_grad():
        ours = policy.log_probs(decisions)[0]
        worst = 0.0
        for row, one in zip(ours, decisions, strict=True):
            ids = torch.from_numpy(np.concatenate([one.prompt_ids, one.token_ids]))[None].to(setup.device)
            table = policy.model(input_ids=ids[:, :-1], use_cache=False).logits.float().log_softmax(-1)
            plain = table.gather(-1, ids[:, 1:, None])[0, -setup.answer :, 0]
            worst = max(worst, float((row - plain).abs().max()))
    return Result("", worst < 1e-3, f"largest difference {worst:.1e}", 0, {"difference": worst})


def lora(setup: Setup) -> Result:
    """An adapter learns above frozen weights in half precision."""
    import torch

    from wmrl_gym.algorithms.policy_update import frozen_copy
    from wmrl_gym.policies.causal_lm_loading import add_lora

    policy = new_policy(setup, add_lora(new_model(setup).bfloat16(), 8), compute_dtype=setup.compute_dtype)
    kept = [p for p in policy.model.parameters() if not p.requires_grad]
    before = [float(p.detach().double().sum()) for p in kept]
    reference = frozen_copy(policy)
    update = new_update(policy, 1e-4)
    share = [update.update(learnable(play(policy, setup, step)), (step,))["weights_changed"] for step in range(2)][-1]
    same = before == [float(p.detach().double().sum()) for p in kept]
    addresses = {p.data_ptr() for p in reference.model.parameters()}
    shared = all(p.data_ptr() in addresses for p in kept)
    finite = all(bool(torch.isfinite(p).all()) for p in policy.parameters())
    found = f"{share:.1%} of the adapter moved; frozen weights unchanged: {same}, shared with the reference: {shared}"
    return Result("", share > 0.5 and same and shared and finite, found, 0, {"share": share})


def speed(setup: Setup) -> Result:
    """How long a turn and an update take."""
    policy = new_policy(setup, compute_dtype=setup.compute_dtype)
    update = new_update(policy, 1e-6)
    batch = learnable(made_up(setup))
    update.update(batch, (0,))  # kernels are chosen, AdamW makes its moments
    started, count = clock(setup), 3
    for step in range(count):
        update.update(batch, (step,))
    of_update = (clock(setup) - started) / count
    play(policy, setup)
    started = clock(setup)
    produced = sum(len(decision.token_ids) for decision in play(policy, setup, 1))
    of_turn = clock(setup) - started
    tokens = setup.prompt + setup.episodes * setup.answer
    found = (
        f"update of {setup.episodes} episodes ({tokens:,} tokens with the prompt once): {of_update:.2f} s; "
        f"{produced} tokens generated by transformers in {of_turn:.2f} s"
    )
    return Result("", True, found, 0, {"update_seconds": of_update, "turn_seconds": of_turn, "tokens": tokens})


def memory(setup: Setup) -> Result:
    """Peak memory of an update, beside what `estimate_memory` foretells."""
    import torch

    from wmrl_gym.policies import estimate_memory

    told = estimate_memory(
        new_config(setup), compute_dtype=setup.compute_dtype, microbatch=setup.episodes,
        prompt_tokens=setup.prompt, answer_tokens=setup.answer, batch_size=setup.episodes,
    )  # fmt: skip
    foretold = max(told.update, told.step)
    batch = learnable(made_up(setup))
    loaded = 0 if setup.device != "cpu" else in_memory("VmRSS")
    policy = new_policy(setup, compute_dtype=setup.compute_dtype)
    update = new_update(policy, 1e-6)
    for step in range(2):
        update.update(batch, (step,))
    peak = torch.cuda.max_memory_allocated() if setup.device != "cpu" else in_memory("VmHWM") - loaded
    ratio = peak / foretold
    found = f"{peak / GIB:.2f} GiB, foretold {foretold / GIB:.2f}: {ratio:.2f} times"
    # What a CPU's allocator keeps hides a tiny model's own needs.
    passed = ratio < 1.15 if setup.device != "cpu" else True
    return Result("", passed, found, 0, {"peak": peak, "foretold": foretold, "ratio": ratio})


def new_config(setup: Setup) -> Any:
    import torch

    with torch.device("meta"):
        return new_model(setup).config


def clock(setup: Setup) -> float:
    """Seconds, once the device has done what it was told."""
    import torch

    if setup.device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def in_memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def through_vllm(setup: Setup, folder: str, *, adapter: bool = False, **engine: Any) -> Any:
    """A policy with vLLM beside the trainer. On a GPU vLLM computes in bfloat16."""
    from wmrl_gym.engines import VLLMEngine
    from wmrl_gym.policies import VLLMPolicy
    from wmrl_gym.policies.causal_lm_loading import add_lora

    on_gpu = setup.device != "cpu"
    model = new_model(setup)
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    settings: dict[str, Any] = {
        "dtype": "bfloat16" if on_gpu else "float32", "max_model_len": 1024, "enforce_eager": True,
        "logprobs_mode": "processed_logprobs",
    }  # fmt: skip
    if on_gpu:
        settings["gpu_memory_utilization"] = 0.3
    else:
        # As vLLM's build for CPUs wants them.
        settings |= {"block_size": 32, "kv_cache_memory_bytes": 2**27, "enable_chunked_prefill": False,
                     "max_num_batched_tokens": 1024}  # fmt: skip
    if adapter:
        settings |= {"enable_lora": True, "max_lora_rank": 8}
        model = add_lora(model, 8)
    return VLLMPolicy(
        model, tokenizer(), setup.answer, engine=VLLMEngine(folder, **settings, **engine), chat=False,
        device=setup.device, compute_dtype="bfloat16" if on_gpu else None,
    )  # fmt: skip


def mismatch(policy: Any, decisions: Sequence[Decision]) -> float:
    """Mean absolute difference of vLLM's log-probabilities and the trainer's."""
    import torch

    with torch.no_grad():
        log_probs, _, mask = policy.log_probs(decisions)
    theirs = np.concatenate([decision.log_probs for decision in decisions])
    return float(np.abs(log_probs[mask.bool()].float().cpu().numpy() - theirs).mean())


def updated(policy: Any, setup: Setup, close: float) -> Result:
    """vLLM's log-probabilities are the trainer's before and after updates large enough to be seen."""
    import torch

    first = play(policy, setup)
    differences = [mismatch(policy, first)]
    moved = 0.0
    for step in range(2):
        # Seen in vLLM's log-probabilities only if it has the new weights.
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        moved = max(moved, mismatch(policy, first))
        differences.append(mismatch(policy, play(policy, setup, step)))
    worst = max(differences)
    found = (
        f"difference to the trainer {differences[0]:.1e}, after updates {worst:.1e}; "
        f"old answers then differ by {moved:.2f}"
    )
    passed = worst < close and moved > 5 * worst
    return Result("", passed, found, 0, {"before": differences[0], "worst": worst, "moved": moved})


def vllm_folder(setup: Setup) -> Result:
    """All weights through a folder."""
    with tempfile.TemporaryDirectory() as folder:
        policy = through_vllm(setup, folder)
        try:
            return updated(policy, setup, close_to(setup))
        finally:
            policy.engine.close()


def vllm_adapter(setup: Setup) -> Result:
    """An adapter."""
    with tempfile.TemporaryDirectory() as folder:
        policy = through_vllm(setup, folder, adapter=True)
        try:
            return updated(policy, setup, close_to(setup))
        finally:
            policy.engine.close()


def vllm_memory(setup: Setup) -> Result:
    """vLLM sleeps while the trainer learns, and takes all weights from its memory."""
    import torch

    if setup.device == "cpu":
        return Result("", None, "vLLM sleeps, and takes weights by CUDA's handles, on a GPU only")
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        policy = through_vllm(setup, folder, enable_sleep_mode=True, weight_transfer_config={"backend": "ipc"})
        try:
            first = play(policy, setup)
            awake = torch.cuda.mem_get_info()[0]
            policy.engine.sleep(2)
            policy.weights_changed()
            freed = torch.cuda.mem_get_info()[0] - awake
            result = updated(policy, setup, close_to(setup))
            result.numbers |= {"freed": freed, "answers": len(first)}
            result.found = f"asleep it gives back {freed / GIB:.1f} GiB; {result.found}"
            result.passed = bool(result.passed) and freed > GIB
            return result
        finally:
            policy.engine.close()


def close_to(setup: Setup) -> float:
    return 1e-3 if setup.device == "cpu" else 0.05


CHECKS: dict[str, tuple[Callable[[Setup], Result], float]] = {
    "bfloat16 computing, float32 weights": (precision, 60),
    "log-probabilities by parts": (chunked, 60),
    "adapter": (lora, 60),
    "time": (speed, 90),
    "memory": (memory, 90),
    "vLLM: sleep, weights in memory": (vllm_memory, 150),
    "vLLM: weights by folder": (vllm_folder, 120),
    "vLLM: adapter": (vllm_adapter, 120),
}
"""Each check, and the most seconds it may take."""


def run(name: str, setup: Setup, left: float) -> Result:
    """Run a check in a process of its own, for no longer than its time."""
    check, seconds = CHECKS[name]
    if name.startswith("vLLM") and importlib.util.find_spec("vllm") is None:
        return Result(name, None, "vLLM is not installed in this environment (docs/engines.md)")
    seconds = min(seconds, left)
    if seconds <= 1:
        return Result(name, None, f"the {SECONDS:.0f} seconds of all checks were used up")
    started = time.perf_counter()
    # Forked, so that libraries are loaded once; nothing here has touched the GPU yet.
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(check, setup, theirs))
    process.start()
    theirs.close()
    result = Result(name, False, f"ended by force: longer than {seconds:.0f} s")
    if ours.poll(seconds):
        try:
            result = ours.recv()
        except EOFError:
            process.join(5)
            result = Result(name, False, f"its process ended with {process.exitcode} and without a word")
    process.join(5)
    # It leads a group: what it has started ends with it.
    for ending in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid or 0, ending)
        except (ProcessLookupError, PermissionError):
            break
        process.join(3)
    result.check, result.seconds = name, time.perf_counter() - started
    return result


def _child(check: Callable[[Setup], Result], setup: Setup, answer: Any) -> None:
    os.setsid()
    try:
        answer.send(check(setup))
    except BaseException as error:
        traceback.print_exc()
        line = (str(error).splitlines() or [""])[0]
        answer.send(Result("", False, f"{type(error).__name__}: {line[:300]}"))


def about(device: str) -> str:
    """Device and versions, found in a process of its own, for asking touches the GPU."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(_about(device)))
    process.start()
    process.join(60)
    return str(queue.get()) if process.exitcode == 0 else f"{device} (could not be asked)"


def _about(device: str) -> str:
    import torch
    import transformers

    name = platform.processor() or platform.machine()
    if device != "cpu":
        found = torch.cuda.get_device_properties(0)
        name = f"{found.name}, {found.total_memory / GIB:.0f} GiB"
    return f"{device}: {name}; torch {torch.__version__}, transformers {transformers.__version__}"


def table(results: Sequence[Result], setup: Setup, where: str) -> str:
    from wmrl_gym.reporting.markup import markdown_table

    words = {True: "passed", False: "FAILED", None: "skipped"}
    rows = [[r.check, words[r.passed], r.found.replace("|", "/"), f"{r.seconds:.0f}"] for r in results]
    lines = [
        f"# Smoke test on {setup.device}",
        "",
        f"Made by `python benchmarks/gpu_smoke.py --device {setup.device}"
        f"{' --tiny' if setup.size == 'tiny' else f' --size {setup.size}'}`. {where}.",
        f"Model: {setup.size}, random weights; {setup.episodes} episodes of {setup.prompt} and {setup.answer} tokens.",
        *([] if setup.device != "cpu" else ["It shows that the checks run, and nothing about a GPU."]),
        "",
        *markdown_table(("check", "", "found", "seconds"), rows),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=[size for size in SHAPES if size != "tiny"], default="0.5B")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to see that the checks work")
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), metavar="CHECK", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of all checks together")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_smoke"), help="folder for the table and the numbers")
    options = parser.parse_args(arguments)
    size = "tiny" if options.tiny else options.size
    setup = Setup(options.device, size, *((48, 16) if options.tiny else (512, 256)))
    end = time.perf_counter() + options.seconds
    results = []
    for name in options.only or CHECKS:
        results.append(run(name, setup, end - time.perf_counter()))
        print(
            f"{results[-1].check}: {results[-1].passed} ({results[-1].seconds:.0f} s) {results[-1].found}", flush=True
        )
    where = about(setup.device)
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"setup": asdict(setup), "where": where, "results": [asdict(result) for result in results]}
    (options.out / "gpu_smoke.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    (options.out / "gpu_smoke.md").write_text(table(results, setup, where), encoding="utf-8")
    print("\n" + (options.out / "gpu_smoke.md").read_text(encoding="utf-8"))
    return 1 if any(result.passed is False for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
