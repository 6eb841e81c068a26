"""Reading a file that a hostile script wrote."""

from __future__ import annotations

import os
import stat


def read_submission(directory: int, name: str, limit_bytes: int) -> tuple[bytes | None, str | None]:
    """Read a file from a scratch directory whose processes are all dead.

    A name can be a link to the answers, a pipe that never ends, or a hard link to something else: only a plain file
    with one name, inside the very directory, is read.

    Args:
        directory: descriptor of the scratch directory.
        name: file name in it.
        limit_bytes: largest size that is read.

    Returns:
        (content, None), or (None, why not).
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
        problem = _problem(facts, os.stat(directory), name, limit_bytes)
        if problem:
            return None, problem
        file = os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        return None, f"no {name} was written"
    except OSError as error:
        return None, f"{name} cannot be read: {error.strerror}"
    try:
        problem = _problem(os.fstat(file), os.stat(directory), name, limit_bytes)
        if problem:
            return None, problem
        with open(file, "rb", closefd=False) as stream:
            content = stream.read(limit_bytes + 1)
        return (content, None) if len(content) <= limit_bytes else (None, f"{name} grew while it was read")
    finally:
        os.close(file)


def _problem(facts: os.stat_result, home: os.stat_result, name: str, limit_bytes: int) -> str | None:
    if stat.S_ISLNK(facts.st_mode):
        return f"{name} is a symbolic link"
    if not stat.S_ISREG(facts.st_mode):
        return f"{name} is not a regular file"
    if facts.st_nlink != 1:
        return f"{name} is a hard link"
    if facts.st_dev != home.st_dev:
        return f"{name} lies on another file system"
    if facts.st_size > limit_bytes:
        return f"{name} has {facts.st_size} bytes, more than the {limit_bytes} allowed"
    return None
