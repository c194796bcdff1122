"""A human at the controls: one step at a time, recorded like any other run."""
