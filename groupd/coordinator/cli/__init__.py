"""The `groupd` command."""
