"""Moving a group's offsets on an operator's order: reset and restore."""
