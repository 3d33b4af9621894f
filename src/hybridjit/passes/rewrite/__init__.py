"""Passes that replace a pattern of the graph by a cheaper one with the same values."""
