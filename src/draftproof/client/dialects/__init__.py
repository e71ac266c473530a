"""One file per server dialect."""
