"""What watching costs a training: seven frameworks, bare and watched, by turns in one process."""
