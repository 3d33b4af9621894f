"""Products, factors and transforms of matrices and rows."""
