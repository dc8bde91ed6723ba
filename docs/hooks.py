"""MkDocs hooks that include pages outside docs/ in the site.

Links are written as they work in the repository: `../RESULTS.md`. The root of the site contains the
pages of docs/; all other pages have the same path as in the repository.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = ("RESULTS.md", "CHANGELOG.md", "benchmarks/*.md", "experiments/results/**/*.md")
_UP = re.compile(r"\]\(\.\./")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/."""
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links from docs/ to pages outside so that they stay within the site."""
    inside = Path(page.file.abs_src_path).is_relative_to(ROOT / "docs")
    return _UP.sub("](", markdown) if inside else markdown
