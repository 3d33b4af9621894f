"""Detection and image operators."""
