"""`groupd log`: tools over the offsets log."""
