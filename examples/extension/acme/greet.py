"""A command that greets."""

import typer


def add(app: typer.Typer) -> None:
    """Add `docaudit greet`."""

    @app.command("greet", rich_help_panel="Extensions")
    def greet(name: str) -> None:
        """Greet somebody."""
        typer.echo(f"Good morning, {name}.")
