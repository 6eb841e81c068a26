"""Links to files outside docs/: pictures are taken into the site, of other files the name is given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURE = re.compile(r"!\[([^\]]*)\]\(\.\./([^)]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(\.\./([^)]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pictures that pages show from elsewhere."""
    for page in list(files.documentation_pages()):
        for _, target in PICTURE.findall(page.content_string):
            files.append(File.generated(config, f"figures/{target}", content=_existing(target).read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead pictures to their copies, and write links as the file's name."""

    def name(match: re.Match[str]) -> str:
        text, target = match.groups()
        _existing(target)
        return text if text.strip("`") in target else f"{text} (`{target}`)"

    return LINK.sub(name, PICTURE.sub(r"![\1](figures/\2)", markdown))


def _existing(target: str) -> Path:
    path = REPOSITORY / target.partition("#")[0]
    if not path.exists():
        raise FileNotFoundError(f"a page leads to ../{target}, which does not exist")
    return path
