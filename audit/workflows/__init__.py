"""The work of each command: a workflow takes options and returns what came of them; it prints nothing."""
