"""Dense layers and matrix products."""
