"""The daemon: one process that owns the store and the runs, and serves both over gRPC.

``server`` puts it together; ``methods`` is where calls come in; ``publishing`` takes events,
``streams`` gives them back, ``runs`` keeps runs and ``supervisor`` their processes.
"""
