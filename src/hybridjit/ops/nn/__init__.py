"""Neural network layers: products, convolutions, pooling, normalizations, softmax."""
