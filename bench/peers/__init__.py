"""Other ways to move frames, measured beside lanekit in the same run."""
