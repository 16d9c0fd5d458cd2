"""A hook of mkdocs: the documents are read on GitHub too, so their links may leave docs/. On the site these are mended.

Pictures of recorded results become files of the site; any other file of the repository is linked to where it is hosted.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from mkdocs.structure.files import File, Files

_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)\s#]+)(#[^)\s]*)?(?=\))")
_PICTURES = "studies/results/"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Mend a page's links that lead out of docs/."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def mended(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        if path.startswith("docs/"):
            return found[0]
        if path.startswith(_PICTURES) and path.endswith(".png"):
            uri = f"pictures/{path.removeprefix(_PICTURES)}"
            if files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=posixpath.join(_root(config), path)))
            return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return f"{config.repo_url.rstrip('/')}/blob/main/{path}{found[2] or ''}"

    return _LINK.sub(mended, markdown)


def _root(config: Any) -> str:
    return posixpath.dirname(config.config_file_path)
