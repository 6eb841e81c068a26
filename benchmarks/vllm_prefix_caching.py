"""What vLLM's prefix caching saves a judge: ``python benchmarks/vllm_prefix_caching.py``, in vLLM's own environment.

The static checker's eight questions about a script begin alike. This counts how many tokens of prompts vLLM really
reads, with its prefix cache and without, on SmolLM2 and a few saved solutions (`make_solutions.py`); counts, unlike
seconds, do not depend on the machine. It also needs the packages that hold the competitions' data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from prefix_sharing import questions

from wmrl_gym.engines import VLLMEngine
from wmrl_gym.engines.engine import Sampling
from wmrl_gym.policies.smollm2 import smollm2_directory
from wmrl_gym.reporting.markup import markdown_table

TABLE = Path(__file__).parent / "results" / "vllm_prefix_caching.md"


def read(scripts: int, max_tokens: int, caching: bool) -> tuple[int, int]:
    """Tokens of all prompts, and how many of them came from the cache."""
    engine = VLLMEngine(
        smollm2_directory(), enable_prefix_caching=caching, max_model_len=4096, dtype="float32", enforce_eager=True,
        block_size=32, kv_cache_memory_bytes=2**29, send_seed=False,
    )  # fmt: skip
    prompts, cached = 0, 0
    for asked in questions(scripts, 1500):
        answers = engine.generate(asked, Sampling(temperature=0, presence_penalty=0.0, max_tokens=max_tokens))
        prompts += sum(answer.prompt_tokens or 0 for answer in answers)
        cached += sum(answer.cached_tokens or 0 for answer in answers)
    engine.close()
    return prompts, cached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=8, help="longest answer")
    options = parser.parse_args()
    rows = []
    for caching in (True, False):
        prompts, cached = (number / options.scripts for number in read(options.scripts, options.max_tokens, caching))
        rows.append(["on" if caching else "off", f"{prompts:.0f}", f"{cached:.0f}", f"{prompts - cached:.0f}"])
    head = f"Eight questions about each of {options.scripts} scripts, SmolLM2-135M-Instruct, vLLM on a CPU."
    lines = [head, "", *markdown_table(("prefix caching", "prompt tokens a script", "cached", "really read"), rows)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(TABLE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
