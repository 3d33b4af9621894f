"""How each group is computed: choose a KernelSpec, emit it, load the machine code."""
