"""The questions put to a server: one file each, in five families."""
