"""The demonstration run: a cart-pole that learns to balance while you watch."""
