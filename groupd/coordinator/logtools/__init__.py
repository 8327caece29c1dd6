"""The work of `groupd log`: showing, checking and moving the coordinator's logs."""
