"""Memory-model checks of the C core: models made from its source, and mutants of that source.

``python -m tests.models`` runs all of it and prints one table. A model is the core's own text: the
functions of ``csrc`` are compiled against a checker's atomics (Relacy), inlined into litmus tests
(herd7, C11 models) or compiled by the aarch64 compiler and checked as machine code (herd7, AArch64
model). The mutants are found in the text too: each acquire, release and fence is weakened on its
own, so that an ordered access nobody has a model for makes the run fail.
"""
