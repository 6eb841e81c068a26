"""Data for other machines: packed under the address of their content, unpacked once on each machine."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wmrl_gym.core import DataFolder

CHUNK_BYTES = 32 * 2**20


@dataclasses.dataclass(frozen=True)
class Package:
    """Folders as one archive."""

    address: str
    """Hex SHA-256 of the archive, which is the same wherever the same files are packed."""
    arguments: tuple[str, ...]
    """Of the environment, one per folder."""
    chunks: tuple[Any, ...]
    """What stands for each piece of the archive, in order."""


def pack(folders: Sequence[DataFolder], put: Callable[[bytes], Any]) -> Package:
    """Pack folders, piece by piece.

    Args:
        folders: to be packed; links are followed.
        put: takes a piece and returns what stands for it.
    """
    pieces = _Pieces(put)
    with tarfile.open(fileobj=pieces, mode="w|", format=tarfile.PAX_FORMAT, dereference=True) as archive:  # type: ignore[call-overload]
        for folder in folders:
            for path in _files(folder):
                # Times, owners and rights differ from machine to machine and decide nothing.
                entry = tarfile.TarInfo(f"{folder.argument}/{path.relative_to(folder.root)}")
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(entry, file)
    return Package(pieces.finish(), tuple(folder.argument for folder in folders), tuple(pieces.stored))


def unpack(package: Package, get: Callable[[Any], bytes], cache: Path) -> dict[str, Path]:
    """Unpack on this machine, unless somebody has.

    Whoever comes while another process unpacks waits for it. One that is killed leaves nothing that is taken for whole.

    Args:
        package: what to unpack.
        get: fetches a piece.
        cache: folder in which this machine keeps what was unpacked.

    Returns:
        The folder for each argument.

    Raises:
        ValueError: if what came is not what was packed.
        OSError: if there is no room.
    """
    home = cache / package.address
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{package.address}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            begun = cache / f"{package.address}.part"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            _fetch(package, get, begun / "archive.tar")
            with tarfile.open(begun / "archive.tar") as archive:
                archive.extractall(begun / "data", filter="data")
            os.replace(begun / "data", home)
            shutil.rmtree(begun)
    return {argument: home / argument for argument in package.arguments}


def _fetch(package: Package, get: Callable[[Any], bytes], path: Path) -> None:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for chunk in package.chunks:
            piece = get(chunk)
            digest.update(piece)
            file.write(piece)
    if digest.hexdigest() != package.address:
        raise ValueError(f"the data that came have the digest {digest.hexdigest()}, not {package.address}")


def _files(folder: DataFolder) -> Iterator[Path]:
    for part in sorted(set(folder.parts)):
        path = folder.root / part
        if path.is_file():
            yield path
        for directory, subdirectories, names in os.walk(path, followlinks=True):
            subdirectories.sort()
            yield from (Path(directory, name) for name in sorted(names))


class _Pieces:
    """A file to write to that hands on what it is given in pieces of equal size."""

    def __init__(self, put: Callable[[bytes], Any]) -> None:
        self.stored: list[Any] = []
        self._put, self._rest, self._digest = put, bytearray(), hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Take in what tarfile writes."""
        self._rest += data
        while len(self._rest) >= CHUNK_BYTES:
            self._store(CHUNK_BYTES)
        return len(data)

    def finish(self) -> str:
        """Store the rest; returns the digest of all."""
        if self._rest:
            self._store(len(self._rest))
        return self._digest.hexdigest()

    def _store(self, size: int) -> None:
        piece = bytes(self._rest[:size])
        del self._rest[:size]
        self._digest.update(piece)
        self.stored.append(self._put(piece))
