"""Counts the bytes of tensors that live at the same time."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """While it is entered, every tensor that an operation makes is counted until it is freed.

    Under torch's `FakeTensorMode` tensors have shapes and no data, so a program's memory is counted without needing
    any. Views share their storage and count once. What operations use inside themselves is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        """Bytes that live."""
        self.peak = 0
        """Most bytes that lived at the same time; may be set back to `now`."""
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it made."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()
        if address in self._storages:
            return

        def freed(_: object) -> None:
            del self._storages[address]
            self.now -= size

        self._storages[address] = weakref.ref(storage, freed)
        self.now += size
        self.peak = max(self.peak, self.now)
