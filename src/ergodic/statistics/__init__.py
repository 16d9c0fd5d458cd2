"""Statistics of plain arrays: tests of hypotheses and distances between samples. No JAX, no noun of the library."""
