"""Robometer in this process, through LeRobot's port of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from wmrl_gym.world_models.robometer.clip import Clip, same_shape_batches
from wmrl_gym.world_models.robometer.reading import Reading, reading_of

_PACKAGE = "lerobot.rewards.robometer"


class LeRobotTransport:
    """Runs the model beside the trainer, on the same machine.

    Needs LeRobot with its extra ``robometer`` (0.6 or newer; Python 3.12). The weights are loaded at the first clip.

    Args:
        path: checkpoint, a local folder or a name on the Hugging Face Hub.
        device: where the model runs, for example "cuda:1"; None leaves it to LeRobot.
        batch_size: clips in one forward pass.

    Raises:
        ValueError: for a batch size below 1.
    """

    def __init__(self, path: str = "lerobot/Robometer-4B", *, device: str | None = None, batch_size: int = 4) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: give at least 1")
        self.path, self.device, self.batch_size = path, device, batch_size
        self._loaded: tuple[Any, Any] | None = None

    def score(self, clips: Sequence[Clip]) -> list[Reading]:
        """One reading per clip, in order.

        Raises:
            ImportError: if LeRobot is not installed, or too old to know Robometer.
        """
        readings: dict[int, Reading] = {}
        for batch in same_shape_batches(clips, self.batch_size):
            readings.update(zip(batch, self._score_batch([clips[i] for i in batch]), strict=True))
        return [readings[i] for i in range(len(clips))]

    def health(self) -> dict[str, Any]:
        """Load the model, and say where it is."""
        model, _ = self._model()
        return {"status": "healthy", "device": str(next(model.parameters()).device)}

    def provenance(self) -> dict[str, Any]:
        """Which model answers."""
        return {"model": self.path}

    def close(self) -> None:
        """Let go of the model."""
        self._loaded = None

    def _score_batch(self, clips: Sequence[Clip]) -> list[Reading]:
        model, encoder = self._model()
        encoded = encoder.encode_samples([(clip.frames, clip.instruction) for clip in clips])
        progress, success = _per_frame(model, encoded)
        return [
            reading_of(clip, p, s) for clip, p, s in zip(clips, progress, success or [None] * len(clips), strict=True)
        ]

    def _model(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                modeling = import_module(f"{_PACKAGE}.modeling_robometer")  # makes its configuration known, too
                processing = import_module(f"{_PACKAGE}.processor_robometer")
                rewards = import_module("lerobot.configs.rewards")
            except ImportError as error:
                raise ImportError(
                    "LeRobotTransport needs LeRobot's Robometer: pip install 'lerobot[robometer]>=0.6' (Python 3.12), "
                    f"or use HTTPTransport with Robometer's own server ({error})"
                ) from error
            config = rewards.RewardModelConfig.from_pretrained(self.path)
            config.pretrained_path = self.path
            if self.device is not None:
                config.device = self.device
            model = modeling.RobometerRewardModel.from_pretrained(self.path, config=config)
            encoder = processing.RobometerEncoderProcessorStep(
                base_model_id=config.base_model_id,
                max_frames=None,
                use_multi_image=config.use_multi_image,
                use_per_frame_progress_token=config.use_per_frame_progress_token,
            )
            self._loaded = model, encoder
        return self._loaded


def _per_frame(model: Any, encoded: Mapping[str, Any]) -> tuple[list[Any], list[Any] | None]:
    """Progress and success of each frame, clip by clip.

    LeRobot's public `compute_reward` gives the last frame only. Its newer versions have `predict_progress` for all of
    them; 0.6.1 has the two functions that `compute_reward` itself consists of.
    """
    import torch

    modeling = import_module(f"{_PACKAGE}.modeling_robometer")
    if hasattr(model, "predict_progress"):
        prefix = modeling.ROBOMETER_FEATURE_PREFIX
        prediction = model.predict_progress({f"{prefix}{name}": value for name, value in encoded.items()})
        return prediction.progress.float().cpu().tolist(), prediction.success_probability.float().cpu().tolist()
    device = next(model.parameters()).device
    known = modeling.ROBOMETER_INPUT_KEYS
    inputs = {n: v.to(device) if hasattr(v, "to") else v for n, v in encoded.items() if n in known}
    model.eval()
    with torch.no_grad():
        progress_logits, success_logits = model._compute_rbm_logits(inputs)
    decoded = modeling.decode_progress_outputs(
        progress_logits, success_logits, is_discrete_mode=model.config.use_discrete_progress
    )
    return decoded["progress_pred"], decoded["success_probs"] or None
