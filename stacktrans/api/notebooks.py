"""What notebooks show of an object: what the command line shows of it, in HTML."""

import io

from rich.console import RenderableType

from stacktrans.showing.progress import VisibleConsole

WIDTH = 240
"""Characters across."""
_FORMAT = '<pre style="line-height: normal; overflow-x: auto; white-space: pre">{code}</pre>'


def as_html(*renderables: RenderableType) -> str:
    """Tables and text as HTML that needs nothing else; what is in it can't be markup."""
    # In a notebook, a console of its own accord displays what is printed: it would be there twice.
    console = VisibleConsole(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, force_jupyter=False
    )
    for renderable in renderables:
        console.print(renderable)
    return console.export_html(inline_styles=True, code_format=_FORMAT)
