"""A file of several sections, each written by a program of its own."""

from pathlib import Path

HEADING = "# How stacktrans bears what happens to it\n"


def write_section(path: Path, name: str, markdown: str) -> None:
    """Put a section into a file in the place of the one of that name, or at its end.

    Args:
        path: of the file; made if there is none.
        name: of the section, which stands in the markers around it.
        markdown: what the section holds.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{markdown.strip()}\n{end}\n"
    before, found, rest = (path.read_text() if path.exists() else HEADING).partition(begin)
    after = rest.partition(end)[2].lstrip("\n") if found else ""
    parts = [before.rstrip("\n") + "\n", section, *([after] if after else [])]
    path.write_text("\n".join(parts))
