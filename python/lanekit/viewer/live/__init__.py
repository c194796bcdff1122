"""A run's steps and episodes as they are committed: from the daemon to tables and curves."""
