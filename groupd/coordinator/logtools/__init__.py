"""The functions behind `groupd log`: showing, checking and moving the coordinator's logs."""
