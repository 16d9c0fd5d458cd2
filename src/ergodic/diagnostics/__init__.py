"""Measures of how good draws are; each works on plain arrays."""
