"""The sender's side: a worker's output, its journal on disk, and the way to the daemon."""
