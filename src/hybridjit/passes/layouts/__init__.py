"""Passes that choose how arrays are laid out in memory."""
