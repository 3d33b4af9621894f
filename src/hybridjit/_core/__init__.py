"""Internal modules that every other part may import: types, switches, errors' frames, locks."""
