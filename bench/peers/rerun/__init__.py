"""Rerun: what sends it frames, in an environment of its own."""
