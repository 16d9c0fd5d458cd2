"""How far draws are from the truth: what studies measure and the library itself does not need."""
