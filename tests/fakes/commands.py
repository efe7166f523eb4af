"""The command line, called within a test's own process."""

from click.testing import Result
from typer.testing import CliRunner

from audit.cli import app


def docaudit(*arguments: object) -> Result:
    """Run `docaudit`; what is no known error is raised."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
