"""Passes over the graph: one file per idea; ``compiler.PIPELINE`` shows their order."""
