"""The transport through LeRobot, against modules that have LeRobot's signatures and a model of two layers.

Neither LeRobot (it needs Python 3.12) nor its weights were there to run this: what is tested is that the transport
calls what LeRobot 0.6.1, and its newer `predict_progress`, offer, and what it makes of the answers.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.world_models.robometer import LeRobotTransport, RobometerWorldModel

from .episodes import episode

PREFIX = "observation.robometer."


class FakeConfig:
    device: str | None = "cpu"
    pretrained_path: str | None = None
    base_model_id = "Qwen/Qwen3-VL-4B-Instruct"
    use_multi_image = True
    use_per_frame_progress_token = True
    use_discrete_progress = True

    @classmethod
    def from_pretrained(cls, pretrained_name_or_path: str, **kwargs: Any) -> FakeConfig:
        return cls()


class FakeEncoder:
    """Pixels of the first corner as the tensors of a batch."""

    seen: list[tuple[np.ndarray, str]]

    def __init__(
        self,
        base_model_id: str,
        max_frames: int | None = 8,
        use_multi_image: bool = True,
        use_per_frame_progress_token: bool = True,
    ) -> None:
        assert max_frames is None, "the frames were chosen already"
        self.seen = []

    def encode_samples(self, samples: list[tuple[np.ndarray, str]]) -> dict[str, Any]:
        self.seen += samples
        corners = np.stack([frames[:, 0, 0] for frames, _ in samples])
        return {"input_ids": torch.as_tensor(corners), "prog_token_id": 7, "unheard_of": 1}


class FakeModel(torch.nn.Module):
    """Logits over ten bins that lie on the bin which the red channel names."""

    def __init__(self, config: FakeConfig) -> None:
        super().__init__()
        self.config, self.scale = config, torch.nn.Parameter(torch.tensor(100.0))

    @classmethod
    def from_pretrained(cls, pretrained_name_or_path: str, *, config: FakeConfig) -> FakeModel:
        assert config.pretrained_path == pretrained_name_or_path, "else LeRobot would download the base model first"
        return cls(config)

    def _compute_rbm_logits(self, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        assert set(inputs) == {"input_ids", "prog_token_id"} and not torch.is_grad_enabled() and not self.training
        progress = inputs["input_ids"][..., 0] / 255
        bins = torch.nn.functional.one_hot((progress * 9).round().long(), 10) * self.scale
        return bins, torch.logit(inputs["input_ids"][..., 1] / 255, eps=1e-4)


class NewerModel(FakeModel):
    def predict_progress(self, batch: dict[str, Any]) -> Any:
        corners = batch[f"{PREFIX}input_ids"] / 255
        return types.SimpleNamespace(progress=corners[..., 0], success_probability=corners[..., 1])


def decode_progress_outputs(progress: Any, success: Any, *, is_discrete_mode: bool) -> dict[str, Any]:
    assert is_discrete_mode
    values = (torch.softmax(progress, -1) * torch.linspace(0, 1, 10)).sum(-1)
    return {"progress_pred": values.tolist(), "success_probs": torch.sigmoid(success).tolist()}


@pytest.fixture(params=[FakeModel, NewerModel])
def lerobot(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {
        "lerobot.configs.rewards": {"RewardModelConfig": FakeConfig},
        "lerobot.rewards.robometer.processor_robometer": {"RobometerEncoderProcessorStep": FakeEncoder},
        "lerobot.rewards.robometer.modeling_robometer": {
            "RobometerRewardModel": request.param,
            "ROBOMETER_FEATURE_PREFIX": PREFIX,
            "ROBOMETER_INPUT_KEYS": ("input_ids", "attention_mask", "prog_token_id"),
            "decode_progress_outputs": decode_progress_outputs,
        },
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("lerobot")
def test_frames_go_in_once_chosen_and_progress_of_each_comes_out_in_order() -> None:
    transport = LeRobotTransport("a/checkpoint", device="cpu", batch_size=2)
    model = RobometerWorldModel(transport, reducer="success")
    lasts = [0.0, 1 / 3, 2 / 3, 1.0, 1 / 3]
    ramps = [np.linspace(0, last, 8 if i != 3 else 30) for i, last in enumerate(lasts)]
    outcomes = model.predict([episode(ramp, ramp) for ramp in ramps])
    assert [outcome.score for outcome in outcomes] == pytest.approx(lasts, abs=0.003)
    assert [outcome.details["progress"][-1] for outcome in outcomes] == pytest.approx(lasts, abs=0.003)
    assert all(outcome.details["model"] == "a/checkpoint" for outcome in outcomes)
    assert all(len(outcome.details["progress"]) == 8 for outcome in outcomes)
    assert model.health() == {"status": "healthy", "device": "cpu"}


@pytest.mark.usefixtures("lerobot")
def test_nan_of_the_model_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(self: FakeEncoder, samples: Any) -> dict[str, Any]:
        return {"input_ids": torch.full((1, 3, 3), torch.nan)}

    monkeypatch.setattr(FakeEncoder, "encode_samples", spoiled)
    monkeypatch.setattr(FakeModel, "_compute_rbm_logits", lambda self, inputs: (inputs["input_ids"],) * 2)
    modeling = sys.modules["lerobot.rewards.robometer.modeling_robometer"]
    rows = {"progress_pred": [[0.5, float("nan"), 0.5]], "success_probs": [[0.5] * 3]}
    monkeypatch.setattr(modeling, "decode_progress_outputs", lambda *logits, is_discrete_mode: rows)
    (outcome,) = RobometerWorldModel(LeRobotTransport("a/checkpoint")).predict([episode([0.0, 0.5, 1.0])])
    assert outcome.score is None and "not finite" in outcome.feedback


def test_missing_lerobot_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lerobot.rewards.robometer.modeling_robometer", None)
    model = RobometerWorldModel(LeRobotTransport())
    with pytest.raises(ImportError, match=r"lerobot\[robometer\]"):
        model.predict([episode([0.0, 1.0])])
