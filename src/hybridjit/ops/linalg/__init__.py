"""Products, factorizations and transforms of matrices and rows."""
