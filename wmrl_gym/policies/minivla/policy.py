"""MiniVLA as an agent that looks at a robot's cameras, is told what to do, and moves. Implements `core.Policy`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.core import Decision
from wmrl_gym.policies.batching import act_in_batches, available_device, episodes_that_keep_busy
from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.action_tokens import ActionCodec
from wmrl_gym.policies.minivla.feature_cache import FeatureCache
from wmrl_gym.policies.minivla.generation import sample_tokens, token_log_probs
from wmrl_gym.policies.minivla.images import CROP_AREA, prepare_image
from wmrl_gym.policies.minivla.model import Context, MiniVLAModel
from wmrl_gym.policies.minivla.prompting import prompt_ids
from wmrl_gym.policies.minivla.saving import write_minivla

Observation = Mapping[str, Any]


class MiniVLAPolicy:
    """A vision-language-action model that acts in batches and learns.

    Observations are mappings with "<camera>_image" (uint8, (H, W, 3)) for each camera, the way up the model was trained
    on, and "instruction". Actions are float32 of shape (n, 7) as the simulator takes them, gripper -1 (open) or +1.

    Args:
        model: the network; a PEFT adapter may be around its language model.
        tokenizer: of the language model, the action tokens included.
        codec: how actions are written as tokens.
        scale: between normalised actions and the simulator's.
        cameras: which pictures the model sees, in the order it was trained on.
        crop_area: share of a picture's area that is cut out of its middle; None for all of it.
        train_vision: whether the vision backbones learn, too.
        device: where the model is moved to.
        batch_size: most decisions made at the same time; None for all.
        feature_cache_bytes: how much memory features of frozen vision backbones may take, so that learning does not
            look at every picture again; 0 for none.
    """

    def __init__(
        self,
        model: MiniVLAModel,
        tokenizer: Any,
        codec: ActionCodec,
        scale: ActionScale,
        *,
        cameras: Sequence[str] = ("agentview",),
        crop_area: float | None = CROP_AREA,
        train_vision: bool = False,
        device: torch.device | str = "cpu",
        batch_size: int | None = None,
        feature_cache_bytes: int = 2**30,
    ) -> None:
        self.device = available_device(device)
        self.model = model.to(self.device).eval()
        self.tokenizer = tokenizer
        self.codec = codec
        self.scale = scale
        self.cameras = tuple(cameras)
        self.crop_area = crop_area
        self.train_vision = train_vision
        self.batch_size = batch_size
        self.model.vision.requires_grad_(train_vision)
        self._features = FeatureCache(0 if train_vision else feature_cache_bytes)
        self._trained = [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        self._prompts: dict[str, NDArray[np.int64]] = {}

    @property
    def concurrency(self) -> int:
        """Episodes that keep it busy."""
        return episodes_that_keep_busy(self.batch_size, self.device)

    def act(
        self,
        observations: Sequence[Observation],
        *,
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float = 1.0,
    ) -> list[Decision]:
        """Decide for a batch of episodes at once; see `core.Policy.act`. The model has no memory of earlier turns.

        Raises:
            ValueError: if the lengths differ.
        """
        return act_in_batches(
            observations, histories, seeds, self.batch_size, lambda o, _, s: self._act_batch(o, s, temperature)
        )

    @torch.no_grad()
    def _act_batch(
        self, observations: Sequence[Observation], seeds: Sequence[tuple[int, ...]], temperature: float
    ) -> list[Decision]:
        features = self.features(observations)
        prompts = [self.prompt_ids(observation["instruction"]) for observation in observations]
        context = self.model.context(features, prompts)
        tokens, log_probs = sample_tokens(self.model, context, self.codec, seeds=seeds, temperature=temperature)
        decisions = [
            Decision(
                observation=observation,
                action=self.scale.to_environment(self.codec.decode(row)),
                prompt_ids=prompt,
                token_ids=row,
                log_probs=row_log_probs,
            )
            for observation, prompt, row, row_log_probs in zip(observations, prompts, tokens, log_probs, strict=True)
        ]
        for decision, row_features in zip(decisions, features, strict=True):
            self._features.put(decision, row_features)
        return decisions

    def log_probs(
        self, decisions: Sequence[Decision], *, temperature: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probability and entropy of every action token under the current weights, with gradients.

        Both are over the action tokens alone. Tokens of actions that were never taken, because the episode ended in
        the middle of a chunk (``Decision.actions_used``), are masked.

        Args:
            decisions: what was decided, length N.
            temperature: the temperature they were sampled at (for 0, use 1).

        Returns:
            (log_probs, entropy, mask), each of shape (N, T), on the policy's device.
        """
        token_ids = torch.from_numpy(np.stack([decision.token_ids for decision in decisions])).to(self.device)
        context = self.model.context(self._features_of(decisions), [decision.prompt_ids for decision in decisions])
        table = token_log_probs(self.model, context, self.codec, token_ids, temperature)
        log_probs = table.gather(-1, (token_ids - self.codec.first_token)[..., None])[..., 0]
        entropy = -(table.exp() * table).sum(-1)
        counts = torch.tensor([self.tokens_taken(decision) for decision in decisions], device=self.device)
        places = torch.arange(token_ids.shape[1], device=self.device)
        return log_probs, entropy, (places < counts[:, None]).to(log_probs.dtype)

    def tokens_taken(self, decision: Decision) -> int:
        """How many leading tokens of a decision had an effect: those that `log_probs` does not mask."""
        used = decision.actions_used
        return len(decision.token_ids) if used is None else self.codec.tokens_taken(used)

    def features(self, observations: Sequence[Observation]) -> torch.Tensor:
        """What the vision backbones make of the pictures, shape (N, patches of all cameras, width).

        With gradients only if the backbones learn.

        Raises:
            ValueError: if a camera's picture is missing.
        """
        size = self.model.vision.image_size
        pictures = [
            prepare_image(self._picture(observation, camera), size, self.crop_area)
            for observation in observations
            for camera in self.cameras
        ]
        with torch.set_grad_enabled(self.train_vision and torch.is_grad_enabled()):
            features = self.model.look(torch.from_numpy(np.stack(pictures)).to(self.device))
        return features.reshape(len(observations), -1, features.shape[-1])

    def _picture(self, observation: Observation, camera: str) -> NDArray[np.uint8]:
        try:
            return np.asarray(observation[f"{camera}_image"])
        except KeyError:
            there = sorted(key for key in observation if key.endswith("_image"))
            raise ValueError(
                f"the observation has no '{camera}_image' (images there: {there})\n"
                "  Let the environment render it (env.cameras), or name other cameras in the policy."
            ) from None

    def _features_of(self, decisions: Sequence[Decision]) -> torch.Tensor:
        known = [self._features.get(decision) for decision in decisions]
        missing = [i for i, features in enumerate(known) if features is None]
        if missing:
            fresh = self.features([decisions[i].observation for i in missing])
            for i, features in zip(missing, fresh, strict=True):
                known[i] = features
                self._features.put(decisions[i], features)
        return torch.stack([features for features in known if features is not None])

    def context(self, observations: Sequence[Observation]) -> Context:
        """Prompts and pictures of a batch of observations, embedded."""
        prompts = [self.prompt_ids(observation["instruction"]) for observation in observations]
        return self.model.context(self.features(observations), prompts)

    def prompt_ids(self, instruction: str) -> NDArray[np.int64]:
        """Token ids of the prompt, shape (P,)."""
        if instruction not in self._prompts:
            self._prompts[instruction] = prompt_ids(self.tokenizer, instruction)
        return self._prompts[instruction]

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters that are trained."""
        return (parameter for parameter in self.model.parameters() if parameter.requires_grad)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights that are trained; what is frozen comes from where the policy was loaded from."""
        every = dict(self.model.named_parameters())
        return {name: every[name].detach() for name in self._trained}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state_dict` gave.

        Raises:
            ValueError: if other parameters are trained here than there.
        """
        if different := sorted(set(state) ^ set(self._trained)):
            raise ValueError(
                f"the saved weights and this policy train different parameters, for example {different[0]}: "
                "use the same settings (train_vision, lora_rank) as when they were saved"
            )
        every = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, values in state.items():
                every[name].copy_(values)

    def save_pretrained(self, directory: str | Path) -> None:
        """Write weights, tokenizer and settings to a folder that `load_minivla` reads; adapters are merged."""
        write_minivla(
            directory,
            model=self.model,
            tokenizer=self.tokenizer,
            codec=self.codec,
            scale=self.scale,
            cameras=self.cameras,
            crop_area=self.crop_area,
        )

    def frozen_copy(self) -> MiniVLAPolicy:
        """A copy whose weights never change: the reference policy of a KL term. Frozen backbones are shared."""
        twin = copy.copy(self)
        shared = {} if self.train_vision else {id(self.model.vision): self.model.vision}
        twin.model = copy.deepcopy(self.model, shared).eval().requires_grad_(False)
        twin.train_vision = False
        if self.train_vision:
            twin._features = FeatureCache(0)
        return twin
