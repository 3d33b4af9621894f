"""Random operators, and densities of their distributions."""
