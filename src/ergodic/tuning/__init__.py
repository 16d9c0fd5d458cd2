"""Ways of choosing a chain's parameters, one a file."""
