"""A person at the controls of an environment."""
