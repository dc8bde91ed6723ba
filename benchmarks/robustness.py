"""A Markdown file whose sections are written by different programs."""

from pathlib import Path

HEADING = "# Robustness\n"


def write_section(path: Path, name: str, markdown: str) -> None:
    """Replace the section of a name in a file, or append it.

    Args:
        path: the file, which is created if it does not exist.
        name: the name of the section, which the markers around it contain.
        markdown: the contents of the section.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{markdown.strip()}\n{end}\n"
    before, marker, rest = (path.read_text() if path.exists() else HEADING).partition(begin)
    after = rest.partition(end)[2].lstrip("\n") if marker else ""
    parts = [before.rstrip("\n") + "\n", section, *([after] if after else [])]
    path.write_text("\n".join(parts))
