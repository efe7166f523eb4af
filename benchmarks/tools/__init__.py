"""Tools of maintainers: compare versions, fit parameters, send hostile input, walk as a user."""
