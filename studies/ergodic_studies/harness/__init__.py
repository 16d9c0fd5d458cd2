"""What every study shares: a cell, a preset, a table, a process, and the runner of a study."""
