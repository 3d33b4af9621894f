"""Passes that differentiate a graph and divide it into forward and backward."""
