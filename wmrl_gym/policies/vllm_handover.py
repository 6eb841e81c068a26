"""How vLLM is given the weights that were trained: in memory, or written to a folder that it reads.

In memory it goes where vLLM was made with a ``weight_transfer_config``, through vLLM's own transfer engines: "ipc" lets
it read the trainer's tensors where they lie, on the same GPU; "nccl" sends them to other GPUs. Everywhere else, and for
adapters, a folder does it.
"""

from __future__ import annotations

import os
import socket
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

METHODS = ("init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update")
"""What a ``vllm.LLM`` that takes weights in memory must be able to do."""
PICKLING = "VLLM_ALLOW_INSECURE_SERIALIZATION"
"""Environment variable without which vLLM's process takes no handles of tensors."""


class Handover(Protocol):
    """Gives a ``vllm.LLM`` all weights of a model. Whoever calls it empties the cache of what old weights computed."""

    def __call__(self, llm: Any, model: Any) -> None:
        """Do it."""


class FolderHandover:
    """Writes the model to a folder, which vLLM loads in place.

    Args:
        exchange: where; None for the system's temporary folder.
    """

    def __init__(self, exchange: str | Path | None = None) -> None:
        self.exchange = exchange
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self, llm: Any, model: Any) -> None:
        """Write and have it read. The folder stays until the next one: vLLM may read it again."""
        folder = new_folder(self.exchange)
        model.save_pretrained(folder.name)
        llm.collective_rpc("reload_weights", kwargs={"weights_path": folder.name})
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = folder


class MemoryHandover:
    """Sends the weights through vLLM's weight-transfer engine, without a file.

    The two sides meet when weights are first sent to a ``vllm.LLM``, and again if it is another one.

    Args:
        backend: the one vLLM was made with.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._sender: Any = None
        self._met: tuple[Any, Any] | None = None

    def __call__(self, llm: Any, model: Any) -> None:
        """Send.

        Raises:
            ValueError: if the backend cannot send from here.
        """
        refuse_unsendable(self.backend, llm, model)
        present = (weakref.ref(llm), weakref.ref(model))
        if present != self._met:
            self._sender = _meet(self.backend, llm, model)
            self._met = present
        try:
            self._sender.send_weights()
        except BaseException:
            self._met = None  # what was half sent is not gone on with: the two sides meet again
            raise


def handover_for(llm: Any, exchange: str | Path | None = None) -> FolderHandover | MemoryHandover:
    """In memory if vLLM was made for it and can do it, by a folder otherwise.

    Args:
        llm: a ``vllm.LLM``.
        exchange: folder for the folder.

    Raises:
        ValueError: if vLLM was made for it and cannot.
    """
    backend = transfer_backend(llm)
    if backend is None:
        return FolderHandover(exchange)
    lacking = [name for name in METHODS if not callable(getattr(llm, name, None))]
    if lacking:
        raise ValueError(
            f"vLLM was made with weight_transfer_config (backend {backend!r}), but this version has no "
            f"{', '.join(lacking)}\n  Leave weight_transfer_config out: weights then go through a folder."
        )
    return MemoryHandover(backend)


def transfer_backend(llm: Any) -> str | None:
    """The weight-transfer engine that a ``vllm.LLM`` was made with; None for none."""
    config = getattr(llm.llm_engine.vllm_config, "weight_transfer_config", None)
    return None if config is None else str(config.backend)


def refuse_unsendable(backend: str, llm: Any, model: Any) -> None:
    """Say what is missing before vLLM waits for it.

    Raises:
        ValueError: if this backend cannot send this model from here.
    """
    if backend not in ("ipc", "nccl"):
        return
    elsewhere = sorted({parameter.device.type for parameter in model.parameters()} - {"cuda"})
    if elsewhere:
        raise ValueError(
            f"weight_transfer_config's backend {backend!r} sends from a GPU, and the policy's weights are on "
            f"{', '.join(elsewhere)}\n  Use policy.device=cuda, or leave weight_transfer_config out."
        )
    # vLLM's engine runs in a process of its own, unless told otherwise.
    if backend == "ipc" and os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING") != "0" and not _set(PICKLING):
        raise ValueError(
            f"backend 'ipc' hands tensors to vLLM's process as pickled handles, which it takes only with {PICKLING}=1\n"
            "  Set it before the program starts, where nobody else can reach vLLM's sockets; or leave "
            "weight_transfer_config out."
        )


def new_folder(exchange: str | Path | None) -> tempfile.TemporaryDirectory[str]:
    """A folder for weights, gone when it is no longer referred to."""
    return tempfile.TemporaryDirectory(prefix="wmrl-weights-", dir=exchange)


class Weights:
    """A model's weights by the names of a checkpoint, in the place of the module that vLLM's `ModuleSource` reads.

    Tensors are the model's own, except where a checkpoint keeps them otherwise (experts, one by one).
    """

    def __init__(self, model: Any) -> None:
        self._model = weakref.ref(model)

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Name and tensor of each, anew each time; tied weights once, which vLLM ties as well."""
        model = self._model()
        if model is None:
            raise RuntimeError("the model whose weights were to be sent is gone")
        named = {name: parameter.detach() for name, parameter in model.named_parameters()}
        yield from _as_in_a_checkpoint(model, named).items()


class Line:
    """The four calls with which vLLM's trainer side drives an engine, on a ``vllm.LLM`` in this process."""

    def __init__(self, llm: Any) -> None:
        self._llm = weakref.ref(llm)

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Meet."""
        self._alive().init_weight_transfer_engine({"init_info": init_info})

    def start_weight_update(self) -> None:
        """Begin."""
        self._alive().start_weight_update()

    def update_weights(self, update_info: Any) -> None:
        """Take a part of the weights, or all."""
        self._alive().update_weights({"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """End."""
        self._alive().finish_weight_update(*([] if weight_version is None else [weight_version]))

    def _alive(self) -> Any:
        llm = self._llm()
        if llm is None:
            raise RuntimeError("the vllm.LLM that weights were to be sent to is gone")
        return llm


def _meet(backend: str, llm: Any, model: Any) -> Any:
    from vllm.distributed.weight_transfer.base import ModuleSource
    from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

    settings = INTRODUCTIONS.get(backend)
    if settings is None:
        raise ValueError(
            f"weight_transfer_config's backend is {backend!r}; this library sends by {', '.join(INTRODUCTIONS)}"
        )
    return WeightTransferTrainerFactory.trainer_init(
        settings(llm), client=Line(llm), source=ModuleSource(Weights(model))
    )


def _ipc(_: Any) -> Any:
    from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

    # Packed, no more than a buffer exists twice.
    return IPCTrainerInitInfo(rank=0, packed=True)


def _nccl(llm: Any) -> Any:
    from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

    workers = int(llm.llm_engine.vllm_config.parallel_config.world_size)
    return NCCLTrainerInitInfo(rank=0, master_address="127.0.0.1", master_port=_free_port(), world_size=1 + workers)


INTRODUCTIONS: dict[str, Callable[[Any], Any]] = {"ipc": _ipc, "nccl": _nccl}
"""By backend, what the trainer's side is made with."""


def _as_in_a_checkpoint(model: Any, named: dict[str, Any]) -> dict[str, Any]:
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # before transformers 5, names in memory and in a checkpoint are the same
        return named
    return dict(revert_weight_conversion(model, named))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")
