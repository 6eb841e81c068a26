"""Looks through a competition's public folder and writes down what is there.

Only public files are opened, links that lead out of the folder are not followed, and large tables are sampled: their
rows are counted, but dtypes and values come from the first `SAMPLE_ROWS` rows.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from wmrl_gym.scriptcheck.inventory import Column, DataFile, Inventory

if TYPE_CHECKING:
    import pandas as pd

TABLE_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".7z", ".rar")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
SAMPLE_BYTES = 64 * 2**20
SAMPLE_ROWS = 50_000
SAMPLE_IMAGES = 24
MAX_TABLES = 20
"""A folder with more tables than this is described as one folder."""
EXAMPLE_CHARS = 60


def scan_public_data(public_dir: Path) -> Inventory:
    """Inventory of a public folder: one entry per table, file and archive, and per folder of many files.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if a table cannot be read, naming it.
    """
    if not public_dir.is_dir():
        raise FileNotFoundError(f"there is no public data folder {public_dir}")
    return Inventory(tuple(_scan_folder(public_dir, public_dir)))


def _scan_folder(folder: Path, root: Path) -> Iterator[DataFile]:
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and _inside(path, root))
    for path in entries:
        if path.is_file():
            yield _scan_file(path, root)
    for path in entries:
        if path.is_dir():
            yield from _scan_subfolder(path, root)


def _inside(path: Path, root: Path) -> bool:
    return not path.is_symlink() or path.resolve().is_relative_to(root.resolve())


def _scan_subfolder(folder: Path, root: Path) -> Iterator[DataFile]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and _inside(path, root))
    tables = [path for path in files if _has_suffix(path.name, TABLE_SUFFIXES)]
    others = [path for path in files if path not in set(tables)] if len(tables) <= MAX_TABLES else files
    if others or not files:
        size, mode = _image_format([path for path in others if _has_suffix(path.name, IMAGE_SUFFIXES)], _open_path)
        yield DataFile(
            path=folder.relative_to(root).as_posix(),
            kind="folder",
            size_bytes=sum(path.stat().st_size for path in others),
            entries=len(others),
            examples=tuple(path.relative_to(folder).as_posix() for path in others[:3]),
            image_size=size,
            image_mode=mode,
        )
    if len(tables) <= MAX_TABLES:
        for path in tables:
            yield _scan_file(path, root)


def _scan_file(path: Path, root: Path) -> DataFile:
    name, size = path.relative_to(root).as_posix(), path.stat().st_size
    if _has_suffix(path.name, TABLE_SUFFIXES):
        rows, columns = _scan_table(path)
        return DataFile(path=name, kind="table", size_bytes=size, rows=rows, columns=columns)
    if _has_suffix(path.name, ARCHIVE_SUFFIXES):
        return _scan_archive(path, name, size)
    return DataFile(path=name, kind="file", size_bytes=size)


def _has_suffix(name: str, suffixes: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(suffixes))


# Tables -------------------------------------------------------------------------------------------------------------


def _scan_table(path: Path) -> tuple[int, tuple[Column, ...]]:
    try:
        frame, rows = _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_delimited(path)
    except (ValueError, OSError, ImportError) as error:
        raise ValueError(f"cannot read the public table {path}: {error}") from error
    return rows, tuple(_describe_column(str(name), frame.iloc[:, i]) for i, name in enumerate(frame.columns))


def _read_delimited(path: Path) -> tuple[pd.DataFrame, int]:
    import pandas as pd

    options: dict[str, Any] = {"sep": "\t" if ".tsv" in path.name.lower() else ",", "low_memory": False}
    if path.stat().st_size == 0:
        return pd.DataFrame(), 0
    if path.stat().st_size <= SAMPLE_BYTES:
        frame = pd.read_csv(path, **options)
        return frame, len(frame)
    frame = pd.read_csv(path, nrows=SAMPLE_ROWS, **options)
    return frame, sum(len(chunk) for chunk in pd.read_csv(path, usecols=[0], chunksize=10**6, **options))


def _read_parquet(path: Path) -> tuple[pd.DataFrame, int]:
    import pandas as pd

    frame = pd.read_parquet(path)
    return frame.head(SAMPLE_ROWS), len(frame)


def _describe_column(name: str, values: pd.Series) -> Column:
    present = values.dropna()
    dtype = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}.get(getattr(values.dtype, "kind", "O"), "str")
    text = present.astype(str)
    distinct = text.drop_duplicates()
    return Column(
        name=name,
        dtype=dtype,
        missing=round(float(values.isna().mean()), 4) if len(values) else 0.0,
        unique=len(distinct),
        examples=tuple(_clip(value) for value in distinct.head(3)),
        mean_length=round(float(text.str.len().mean()), 1) if dtype == "str" and len(text) else 0.0,
    )


def _clip(value: str) -> str:
    value = " ".join(value.split())
    return value if len(value) <= EXAMPLE_CHARS else value[: EXAMPLE_CHARS - 3] + "..."


# Archives and images ------------------------------------------------------------------------------------------------


def _scan_archive(path: Path, name: str, size: int) -> DataFile:
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as zipped:
                names = [member.filename for member in zipped.infolist() if not member.is_dir()]
                return _describe_archive(name, size, names, zipped.open)
        if ".tar" in path.name.lower() or path.suffix.lower() == ".tgz":
            with tarfile.open(path) as tar:
                names = [member.name for member in tar.getmembers() if member.isfile()]
                return _describe_archive(name, size, names, lambda member: tar.extractfile(member) or io.BytesIO())
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError):
        pass  # an archive that cannot be listed is still a file that the agent should know of
    return DataFile(path=name, kind="archive", size_bytes=size)


def _describe_archive(name: str, size: int, names: list[str], opener: Callable[[str], IO[bytes]]) -> DataFile:
    images = [member for member in names if _has_suffix(member, IMAGE_SUFFIXES)]
    image_size, image_mode = _image_format(images, opener)
    return DataFile(
        path=name,
        kind="archive",
        size_bytes=size,
        entries=len(names),
        examples=tuple(sorted(names)[:3]),
        image_size=image_size,
        image_mode=image_mode,
    )


def _open_path(path: Path) -> IO[bytes]:
    return path.open("rb")


def _image_format(
    images: Sequence[Any], opener: Callable[[Any], IO[bytes]]
) -> tuple[tuple[int, int] | None, str | None]:
    """Size and mode of the images, each None if a sample of them does not agree."""
    if not images:
        return None, None
    from PIL import Image

    sizes, modes = set(), set()
    for chosen in images[:: max(1, len(images) // SAMPLE_IMAGES)]:
        try:
            with opener(chosen) as file, Image.open(file) as image:
                sizes.add(image.size)
                modes.add(image.mode)
        except (OSError, ValueError, Image.DecompressionBombError):
            continue
    return (sizes.pop() if len(sizes) == 1 else None), (modes.pop() if len(modes) == 1 else None)
