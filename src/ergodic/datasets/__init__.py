"""Data sets that ergodic does not carry: where they are found."""
