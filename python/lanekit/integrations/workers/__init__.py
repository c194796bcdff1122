"""Ready-made workers, one file per RL framework: ``lanekit run --worker sb3 --env CartPole-v1``.

Each file is the whole worker: configuration, training, what it says about itself. Importing one
does not import its framework; running it does.
"""
