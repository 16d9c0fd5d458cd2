"""Statistics of plain arrays: tests of hypotheses and distances between samples. They know no noun of the library."""
