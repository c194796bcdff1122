"""The slow lane's sizes and times, in one place."""

from __future__ import annotations

RUNBUS_DEFAULT_QUEUE_SIZE = 2048
RUNBUS_UI_PATH_QUEUE_SIZE = 512
RUNBUS_DB_PATH_QUEUE_SIZE = 1024
"""Batches the store's queue holds before senders wait."""
DB_PATH_QUEUE_BYTES = 64 * 2**20
"""Bytes the store's queue holds before senders wait; one larger batch still fits alone."""

DB_SINK_BATCH_SIZE = 256
"""Events that make the store commit at once ..."""
DB_SINK_MAX_DELAY = 0.05
"""... and seconds after which it commits fewer."""
DB_SINK_CHECKPOINT_INTERVAL = 4096
"""Pages of the write-ahead log between checkpoints."""

MAX_LINE_BYTES = 64 * 2**20
"""A worker's longest line."""
MAX_JSON_DEPTH = 256
"""How deeply arrays and objects of a worker's line may be nested, the line's own object counted.

Python 3.11 ends a recursion after 1,000 levels, the caller's own included; newer ones later. Far
below all of them, whether a line is taken depends neither on the interpreter nor on the caller."""
MAX_MESSAGE_BYTES = 80 * 2**20
"""The largest publish request, and the largest message that the daemon sends: one event of the
longest line, and what surrounds it."""
MAX_RECEIVED_BYTES = 2 * 2**20
"""The largest gRPC message that the daemon takes; larger publish requests come in parts."""
PART_BYTES = 2**20
"""Bytes of a request in one of its parts."""
MAX_PARTED_ROWS = 1024
"""Rows of a request that comes in parts. One that needs parts has few and large ones."""
MAX_BATCH_ROWS = 65_536
"""Rows of one publish request. A count is a few bytes on the wire, whatever it claims."""
SEND_BATCH_ROWS = 1024
SEND_BATCH_BYTES = 2**20
"""A sender closes a batch at this many events or bytes, whichever comes first ..."""
SEND_MAX_DELAY = 0.01
"""... or after so many seconds."""
SEND_WINDOW = 64
"""Batches a sender sends ahead of their acknowledgement."""

HEARTBEAT_INTERVAL = 5.0
CANCEL_GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL when a run is cancelled."""

MAX_SEQ = 2**40 - 1
"""Events of one kind in one stream. Shares a 64-bit key with the track's number."""
MAX_TRACK = 2**23 - 1
