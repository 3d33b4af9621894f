"""The layers of networks: products, convolutions, pooling, normalisations, softmax."""
