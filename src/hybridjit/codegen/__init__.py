"""Code generation: choose a KernelSpec for each group, emit its code, load the machine code."""
