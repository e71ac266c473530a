"""The questions put to a server: one file each, in five families. `builtin` holds them all, and takes seconds to import."""
