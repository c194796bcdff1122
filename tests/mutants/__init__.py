"""Mutation testing of the C core: generated faults, and which check catches each.

`python -m tests.mutants` generates the mutants of csrc/ and python/ext/, drops those that compile
to the same machine code, and runs the checks of each file until one fails. A mutant that no check
catches must be listed in equivalent.toml with the reason why it changes nothing that matters.
"""
