"""A weight-transfer engine for CPUs: vLLM's own steps around one file. It registers itself on being imported."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory, WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.ipc_engine import IPCWeightTransferEngine


class Registered:
    """Nothing is added to vLLM's worker but this module's import."""


@dataclass
class Nothing:
    """The two sides need not agree on anything."""


@dataclass
class FileName:
    """Where the weights are."""

    file: str


class Receiver(IPCWeightTransferEngine):
    """In vLLM: starts and finishes as the engine for a GPU does."""

    init_info_cls, update_info_cls = Nothing, FileName

    def init_transfer_engine(self, init_info: Any) -> None:
        pass

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.model.load_weights(torch.load(update_info["file"]).items())


@dataclass
class Introduction(TrainerInitInfo):
    """What the sender is made with."""

    backend: ClassVar[str] = "file"


class Sender(TrainerWeightTransferEngine):
    """In the trainer."""

    init_info_cls = Introduction

    @classmethod
    def trainer_init(cls, init_info: Any, *, client: Any, source: Any = None) -> Sender:
        client.init_weight_transfer_engine({})
        return cls(client=client, source=source)

    def send_weights(self) -> None:
        pairs = self.source.iter_full() if hasattr(self.source, "iter_full") else iter(self.source)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.pt"
            self.client.start_weight_update()
            torch.save({name: tensor.clone() for name, tensor in pairs}, file)
            self.client.update_weights({"file": str(file)})
            self.client.finish_weight_update()

    def shutdown(self) -> None:
        pass


WeightTransferEngineFactory.register_engine("file", Receiver)
WeightTransferTrainerFactory.register_engine("file", Sender)
