"""A run's pictures in a window: from shared memory to the screen in two copies."""
