"""Many simulated nodes against one real daemon and store."""
