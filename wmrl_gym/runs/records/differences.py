"""In which settings two configurations differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Every setting in which two configurations differ, as "key: old, now new"."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            path = f"{where}.{key}" if where else str(key)
            if key not in old or key not in new:
                there, absent = (old, "now absent") if key in old else (new, "absent before")
                yield f"{path}: {json.dumps(there[key])}, {absent}"
            else:
                yield from differences(old[key], new[key], path)
    elif old != new:
        yield f"{where}: {json.dumps(old)}, now {json.dumps(new)}"
