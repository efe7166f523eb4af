"""`python -m audit` is `docaudit`."""

from audit.cli import main

main()
