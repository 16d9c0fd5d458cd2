"""Plots, and what a person looks at."""
