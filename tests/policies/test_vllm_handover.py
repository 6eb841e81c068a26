"""How vLLM is given weights, sleeps and wakes. The real ones need an environment of their own: make test-vllm."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.policies.conftest import tiny_model
from tests.policies.test_vllm_rollout import assert_same, change, greedy, tokens
from wmrl_gym.engines.engine import Message, Prompt, Sampling
from wmrl_gym.engines.vllm_engine import VLLMEngine, agents_engine
from wmrl_gym.policies import vllm_handover
from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.causal_lm_loading import add_lora
from wmrl_gym.policies.vllm_handover import FolderHandover, MemoryHandover, Weights, handover_for
from wmrl_gym.policies.vllm_rollout import VLLMPolicy, keeps_its_own_head

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed here")
JUDGE = [Prompt((Message("user", "is this good?"),))]


class SleepyLLM:
    """Notes what it is told, and what a ``vllm.LLM`` would not bear."""

    def __init__(self, *, enabled: bool = True, backend: str | None = None) -> None:
        transfer = None if backend is None else SimpleNamespace(backend=backend)
        config = SimpleNamespace(
            model_config=SimpleNamespace(enable_sleep_mode=enabled), weight_transfer_config=transfer
        )
        self.llm_engine = SimpleNamespace(vllm_config=config)
        self.told: list[Any] = []

    def sleep(self, level: int = 1) -> None:
        self.told.append(("sleep", level))

    def wake_up(self, tags: Any = None) -> None:
        self.told.append(("wake_up", tags))

    def collective_rpc(self, method: str, kwargs: dict[str, Any]) -> None:
        assert kwargs.keys() == {"weights_path"} and Path(kwargs["weights_path"]).name
        self.told.append(method)


def test_weights_are_handed_over_between_waking_them_and_the_cache() -> None:
    llm = SleepyLLM()
    engine = VLLMEngine("m", llm=llm)
    assert engine.sleep(2) and engine.sleep_level == 2
    engine.wake(lambda given: given.told.append("handed over"))
    assert llm.told == [("sleep", 2), ("wake_up", ["weights"]), "handed over", ("wake_up", ["kv_cache"])]
    engine.wake()
    assert engine.sleep_level is None and len(llm.told) == 4, "awake, there is nothing to wake"


def test_weights_that_nobody_hands_over_are_read_again() -> None:
    llm = SleepyLLM()
    engine = VLLMEngine("m", llm=llm)
    engine.sleep(2)
    engine.wake()
    assert llm.told[1:] == [("wake_up", ["weights"]), "reload_weights", ("wake_up", ["kv_cache"])]


def test_weights_that_were_kept_are_not_handed_over() -> None:
    llm = SleepyLLM()
    engine = VLLMEngine("m", llm=llm)
    assert engine.sleep(1) and not engine.sleep(2), "asleep less deeply already"
    engine.wake(lambda given: pytest.fail("handed over"))
    assert llm.told == [("sleep", 1), ("wake_up", None)]


def test_a_failed_handover_is_tried_again() -> None:
    llm = SleepyLLM()
    engine = VLLMEngine("m", llm=llm)
    engine.sleep(2)
    with pytest.raises(ZeroDivisionError):
        engine.wake(lambda given: print(1 / 0))
    assert engine.sleep_level == 2
    engine.wake(lambda given: None)
    assert engine.sleep_level is None and llm.told[-1] == ("wake_up", ["kv_cache"])


@pytest.mark.parametrize("llm", [SleepyLLM(enabled=False), SimpleNamespace(llm_engine=SleepyLLM().llm_engine), None])
def test_what_cannot_sleep_stays_awake(llm: Any) -> None:
    engine = VLLMEngine("m", llm=llm)
    assert not engine.can_sleep and not engine.sleep(1) and engine.sleep_level is None
    with pytest.raises(ValueError, match="level is 3"):
        engine.sleep(3)


@pytest.mark.parametrize(("lora", "level"), [(False, 2), (True, 1)])
def test_learning_puts_the_engine_to_sleep_once(tokenizer: Any, lora: bool, level: int) -> None:
    llm = SleepyLLM()
    model = add_lora(tiny_model(tokenizer), 3) if lora else tiny_model(tokenizer)
    decisions = CausalLMPolicy(tiny_model(tokenizer), tokenizer, 8).act(["a"], histories=[[]], seeds=[(0,)])
    policy = VLLMPolicy(model, tokenizer, 8, engine=VLLMEngine("m", llm=llm))
    policy.log_probs(decisions)
    policy.log_probs(decisions)
    assert llm.told == [("sleep", level)]
    policy.frozen_copy().log_probs(decisions)  # has no engine


def test_an_engine_with_the_agents_weights_is_no_judge(tokenizer: Any) -> None:
    engine = VLLMEngine("a/model", llm=SleepyLLM())
    policy = VLLMPolicy(tiny_model(tokenizer), tokenizer, 8, engine=engine)
    with pytest.raises(ValueError, match=r"(?s)must not change with the agent.*lora_rank"):
        agents_engine("a/model")
    engine.overwritten = True
    with pytest.raises(ValueError, match="engine of its own"):
        engine.generate(JUDGE, Sampling())
    assert policy.engine is engine


def test_a_world_model_finds_the_engine_of_an_agent_that_learns_an_adapter(tokenizer: Any) -> None:
    engine = VLLMEngine("another/model", llm=SleepyLLM())
    policy = VLLMPolicy(add_lora(tiny_model(tokenizer), 3), tokenizer, 8, engine=engine)
    assert agents_engine("another/model") is policy.engine
    with pytest.raises(ValueError, match=r"(?s)no agent in this process.*causal_lm_vllm"):
        agents_engine("a/third")


def test_weights_go_through_a_folder_unless_vllm_was_made_otherwise() -> None:
    assert isinstance(handover_for(SleepyLLM()), FolderHandover)
    with pytest.raises(ValueError, match=r"no init_weight_transfer_engine, start_weight_update.*\n.*Leave"):
        handover_for(SleepyLLM(backend="ipc"))


@pytest.mark.parametrize("backend", ["ipc", "nccl"])
def test_weights_that_lie_on_no_gpu_are_not_sent(tokenizer: Any, backend: str) -> None:
    with pytest.raises(ValueError, match="sends from a GPU, and the policy's weights are on cpu"):
        MemoryHandover(backend)(SleepyLLM(backend=backend), tiny_model(tokenizer))


def test_handles_are_not_sent_to_a_process_that_would_not_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = SimpleNamespace(parameters=lambda: [SimpleNamespace(device=SimpleNamespace(type="cuda"))])
    monkeypatch.delenv(vllm_handover.PICKLING, raising=False)
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)
    with pytest.raises(ValueError, match="VLLM_ALLOW_INSECURE_SERIALIZATION=1"):
        vllm_handover.refuse_unsendable("ipc", SleepyLLM(), on_gpu)
    vllm_handover.refuse_unsendable("nccl", SleepyLLM(), on_gpu)
    monkeypatch.setenv(vllm_handover.PICKLING, "1")
    vllm_handover.refuse_unsendable("ipc", SleepyLLM(), on_gpu)


def test_weights_have_the_names_of_a_checkpoint_and_no_copies(tokenizer: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model = tiny_model(tokenizer, tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    sent = dict(Weights(model).named_parameters())
    written = load_file(tmp_path / "model.safetensors")
    assert sent.keys() == written.keys() and all(torch.equal(sent[name], written[name]) for name in sent)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert {tensor.data_ptr() for tensor in sent.values()} == own


@pytest.mark.vllm
@needs_vllm
class TestContract:
    """Names and signatures that are only called on a GPU, held against the installed vLLM."""

    def test_the_llm(self) -> None:
        from vllm import LLM

        for name in vllm_handover.METHODS:
            assert callable(getattr(LLM, name)), name
        assert "weight_version" in inspect.signature(LLM.finish_weight_update).parameters
        assert "level" in inspect.signature(LLM.sleep).parameters
        assert "tags" in inspect.signature(LLM.wake_up).parameters

    def test_the_trainers_side(self) -> None:
        from vllm.distributed.weight_transfer.base import ModuleSource, VLLMWeightSyncClient
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

        taken = inspect.signature(WeightTransferTrainerFactory.trainer_init).parameters
        assert list(taken) == ["init_info", "client", "source"]
        source = ModuleSource(Weights(torch.nn.Linear(2, 3)))
        assert source._module is not None
        wanted = [name for name in vars(VLLMWeightSyncClient) if not name.startswith("_")]
        assert wanted and all(callable(getattr(vllm_handover.Line, name)) for name in wanted)

    def test_introductions(self) -> None:
        parallel = SimpleNamespace(world_size=2)
        llm = SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=SimpleNamespace(parallel_config=parallel)))
        ipc, nccl = (vllm_handover.INTRODUCTIONS[name](llm) for name in ("ipc", "nccl"))
        assert (ipc.backend, ipc.rank, ipc.packed) == ("ipc", 0, True)
        assert (nccl.backend, nccl.rank, nccl.world_size) == ("nccl", 0, 3) and nccl.master_port > 0

    def test_settings(self) -> None:
        from vllm.engine.arg_utils import EngineArgs

        assert {"enable_sleep_mode", "weight_transfer_config"} <= {field.name for field in fields(EngineArgs)}


@pytest.fixture(scope="module")
def engine(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMEngine]:
    path = tmp_path_factory.mktemp("tiny")
    tiny_model(tokenizer, head_dim=64).save_pretrained(path)
    tokenizer.save_pretrained(path)
    from tests.policies import file_transfer

    vllm_handover.INTRODUCTIONS["file"] = lambda llm: file_transfer.Introduction(rank=0)
    served = VLLMEngine(
        path, dtype="float32", max_model_len=400, enforce_eager=True, block_size=32, kv_cache_memory_bytes=2**27,
        enable_chunked_prefill=False, max_num_batched_tokens=400, logprobs_mode="processed_logprobs",
        enable_lora=True, max_lora_rank=8, weight_transfer_config={"backend": "file"},
        # Imported in vLLM's own process, it registers the other side there.
        worker_extension_cls="tests.policies.file_transfer.Registered",
    )  # fmt: skip
    yield served
    served.close()
    vllm_handover.INTRODUCTIONS.pop("file")


@pytest.mark.vllm
@needs_vllm
class TestRealEngine:
    """On a CPU vLLM keeps its memory while it sleeps: what is tested is that its steps are taken in a right order."""

    def test_weights_in_memory_a_sleep_in_between_and_a_judge_beside_an_adapter(
        self, engine: VLLMEngine, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(VLLMEngine, "can_sleep", property(lambda engine: engine._llm is not None))
        settings: dict[str, Any] = {"system_prompt": "You write letters.", "context_length": 400}
        sampling = Sampling(temperature=0, max_tokens=12)
        # An adapter first, while the engine's weights are those of its folder.
        adapted = add_lora(tiny_model(tokenizer, head_dim=64), 5)
        policy, plain = (
            VLLMPolicy(adapted, tokenizer, 24, engine=engine, **settings),
            CausalLMPolicy(adapted, tokenizer, 24, **settings),
        )
        judge = agents_engine(engine.path)
        verdict = judge.generate(JUDGE, sampling)[0].text
        change(adapted)
        decisions = greedy(policy)
        assert_same(decisions, greedy(plain))
        policy.log_probs(decisions[:2])
        assert engine.sleep_level == 1
        assert judge.generate(JUDGE, sampling)[0].text == verdict and engine.sleep_level is None
        # All weights, without a file of ours.
        model = tiny_model(tokenizer, head_dim=64)
        policy, plain = (
            VLLMPolicy(model, tokenizer, 24, engine=engine, exchange="/nowhere", **settings),
            CausalLMPolicy(model, tokenizer, 24, **settings),
        )
        before = greedy(policy)
        for update in range(2):
            policy.log_probs(before[:2])
            assert engine.sleep_level == 2
            change(model, update)
            after = greedy(policy)
            assert_same(after, greedy(plain))
            assert tokens(after) != tokens(before) and engine.sleep_level is None
        pushed = policy.pushes
        policy.log_probs(before[:2])  # a deep sleep without an update: the weights are gone all the same
        assert_same(greedy(policy), after)
        assert policy.pushes > pushed
        with pytest.raises(ValueError, match="must not change with the agent"):
            judge.generate(JUDGE, sampling)


def test_a_tied_output_layer_is_refused_where_vllm_keeps_its_own(tokenizer: Any) -> None:
    tied, untied = (tiny_model(tokenizer, tie_word_embeddings=flag).config for flag in (True, False))
    assert keeps_its_own_head("cpu", tied)
    assert not keeps_its_own_head("cpu", untied) and not keeps_its_own_head("cuda", tied)
