"""The measurements that an attack's report asks for in its tables, one for each cell."""

from audit.attacks.figure_text import ReportPart


def cells(*parts: ReportPart) -> set[str]:
    """The full name of every cell of these parts."""
    return {
        name
        for part in parts
        for table in part.tables
        for column in table.columns
        for row in table.rows
        if (name := row.name(column.metric, column.after))
    }
