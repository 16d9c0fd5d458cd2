"""Measurements of this library, and of it against its peers."""
