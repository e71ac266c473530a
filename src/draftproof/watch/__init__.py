"""A light audit again and again, for as long as a server runs."""
