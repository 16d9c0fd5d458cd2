"""Bayesian neural networks for regression (the paper's appendix)."""
