"""Shadow rendering: the training process publishes its environment's small state, another process,
with its own copy of the environment, draws it.

``python -m lanekit.integrations.shadow`` is that process; it reads its orders from standard input,
see :func:`lanekit.integrations.showing.painter.render_request`.
"""
