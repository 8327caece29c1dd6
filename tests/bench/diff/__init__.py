"""What requests cost on this tree and on an older one, side by side, for a fixed list of rows."""
