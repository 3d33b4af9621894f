"""Random tensors."""
