"""Ways of choosing a chain's parameters, one per file."""
