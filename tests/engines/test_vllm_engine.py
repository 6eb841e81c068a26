"""Needs vLLM, which lives in an environment of its own: docs/engines.md tells how to make one and run this."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.engines.engine import Engine, Sampling
from wmrl_gym.engines.vllm_engine import VLLMEngine

from .conftest import VERDICT, checks, prompt, tiny_llama

SAMPLING = Sampling(max_tokens=24)
missing = importlib.util.find_spec("vllm") is None


def test_construction_loads_nothing() -> None:
    code = (
        "import sys\n"
        "from wmrl_gym.engines.vllm_engine import VLLMEngine\n"
        "assert VLLMEngine('/nowhere', max_model_len=64).model == '/nowhere'\n"
        "assert not {'vllm', 'torch', 'transformers'} & set(sys.modules), 'heavy import'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_settings_of_an_existing_engine_are_refused() -> None:
    with pytest.raises(ValueError, match="max_model_len"):
        VLLMEngine("m", llm=object(), max_model_len=64)


@pytest.mark.skipif(not missing, reason="vLLM is installed")
def test_without_vllm_the_error_says_where_to_read_on() -> None:
    with pytest.raises(ImportError, match=r"docs/engines\.md"):
        VLLMEngine("m").generate([prompt("a")], SAMPLING)


@pytest.fixture(scope="module")
def directory(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    # Heads as wide as vLLM's attention kernels want them.
    tiny_llama(tokenizer, head_dim=64).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def served(directory: Path) -> Iterator[VLLMEngine]:
    engine = VLLMEngine(
        directory,
        dtype="float32",
        max_model_len=1024,
        enforce_eager=True,
        block_size=32,  # the smallest that vLLM can do on a CPU
        kv_cache_memory_bytes=2**28,
        enable_lora=True,
        max_lora_rank=8,
    )
    yield engine
    engine.close()


@pytest.mark.vllm
@pytest.mark.skipif(missing, reason="vLLM is not installed here; docs/engines.md tells how to run these")
class TestRealEngine:
    def test_it_is_an_engine(self, served: VLLMEngine) -> None:
        assert isinstance(served, Engine)

    def test_every_answer_obeys_the_schema_and_keeps_its_place(self, served: VLLMEngine) -> None:
        sampling = Sampling(temperature=1.5, top_p=1.0, top_k=0, max_tokens=200)
        prompts = checks(schema=VERDICT)
        answers = served.generate(prompts, sampling)
        for answer in answers:
            assert answer.text is not None and answer.finished
            verdict = json.loads(answer.text)
            assert list(verdict) == ["passed", "exception", "reason"] and len(verdict["reason"]) <= 12
        assert [a.text for a in served.generate(prompts[::-1], sampling)] == [a.text for a in answers[::-1]]

    def test_common_beginnings_are_found_again(self, served: VLLMEngine) -> None:
        first = served.generate(checks(scripts=5), SAMPLING)
        second = served.generate(checks(scripts=5), SAMPLING)
        assert sum(a.cached_tokens for a in first) > 0
        assert all(a.cached_tokens >= a.prompt_tokens - 32 for a in second)
        assert [a.text for a in first] == [a.text for a in second]

    def test_it_reads_the_same_tokens_and_says_the_same_as_transformers(
        self, served: VLLMEngine, directory: Path
    ) -> None:
        from wmrl_gym.engines.transformers_engine import TransformersEngine

        greedy = Sampling(temperature=0, presence_penalty=0.0, max_tokens=12)
        ours = TransformersEngine(directory, local_files_only=True).generate(checks(), greedy)
        theirs = served.generate(checks(), greedy)
        assert [a.prompt_tokens for a in theirs] == [a.prompt_tokens for a in ours]
        # Cut in the middle of a character, vLLM drops the unfinished one, where a tokenizer marks it.
        assert [a.text.rstrip("\ufffd") for a in theirs] == [a.text.rstrip("\ufffd") for a in ours]

    def test_a_cut_answer_is_not_finished(self, served: VLLMEngine) -> None:
        (answer,) = served.generate([prompt("a", VERDICT)], Sampling(max_tokens=5))
        assert answer.text is not None and not answer.finished and answer.generated_tokens == 5

    def test_bad_prompts_cost_only_themselves(self, served: VLLMEngine) -> None:
        bad = [prompt("b" * 5000), prompt("c", {"type": "no-such-type"}), prompt("d \ud800 e")]
        answers = served.generate([prompt("a"), *bad, prompt("a")], SAMPLING)
        assert answers[0].text is not None and answers[0].text == answers[4].text
        assert all(answer.text is None and answer.error for answer in answers[1:4])

    def test_an_agent_with_an_adapter_shares_the_engine_and_changes_no_answer(
        self, served: VLLMEngine, directory: Path, tmp_path: Path
    ) -> None:
        peft = pytest.importorskip("peft")
        import torch
        from transformers import AutoModelForCausalLM
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest

        base = AutoModelForCausalLM.from_pretrained(directory)
        adapted = peft.get_peft_model(base, peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj", "o_proj"]))
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_" in name:
                    parameter.normal_()
        adapted.save_pretrained(tmp_path)
        shared = VLLMEngine(directory, llm=served.llm)
        before = shared.generate(checks(), SAMPLING)
        request = LoRARequest("agent", 1, str(tmp_path))
        greedy = SamplingParams(temperature=0, max_tokens=12)
        ids = {"prompt_token_ids": list(range(40))}
        agent, backbone = (
            served.llm.generate([ids], greedy, use_tqdm=False, lora_request=adapter)[0].outputs[0].token_ids
            for adapter in (request, None)
        )
        assert list(agent) != list(backbone)
        assert [a.text for a in shared.generate(checks(), SAMPLING)] == [a.text for a in before]
        shared.close()
        assert served.generate([prompt("a")], SAMPLING)[0].text is not None
