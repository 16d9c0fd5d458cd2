"""Models that people write, as NumPyro models with simulated data: what `ergodic bench models` runs on."""
