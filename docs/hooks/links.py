"""Links to files outside docs/: results are pages and pictures of the site, of other files the name is given."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = "benchmarks/results"
"""Its pages and pictures are taken into the site, under the same path."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the results."""
    for path in sorted((REPOSITORY / RESULTS).rglob("*")):
        if path.suffix in (".md", ".svg"):
            name = path.relative_to(REPOSITORY).as_posix()
            files.append(File.generated(config, name, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Lead links to where their targets are in the site, or write the file's name instead."""
    here = page.file.src_uri
    source = here if here.startswith(RESULTS) else f"docs/{here}"

    def lead(match: re.Match[str]) -> str:
        picture, text, link = match.groups()
        target, mark, anchor = link.partition("#")
        if not target or ":" in target:
            return match.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if not (REPOSITORY / path).exists():
            raise FileNotFoundError(f"{source} leads to {link}, which does not exist")
        in_site = path.removeprefix("docs/")
        if files.get_file_from_path(in_site) is not None:
            return f"{picture}[{text}]({posixpath.relpath(in_site, posixpath.dirname(here) or '.')}{mark}{anchor})"
        return text if text.strip("`") in path else f"{text} (`{path}`)"

    # Code stays as it is: what looks like a link there is none.
    parts = re.split(r"(^```.*?^```|`[^`\n]+`(?!\]))", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("`") else LINK.sub(lead, part) for part in parts)
