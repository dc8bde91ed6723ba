"""The form that tables have in a terminal."""

from rich.table import Table


def plain_table(*columns: str, title: str | None = None) -> Table:
    """A table with numbers to the right and no more lines than it needs."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table
