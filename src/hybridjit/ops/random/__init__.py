"""Random draws and the densities of what is drawn."""
