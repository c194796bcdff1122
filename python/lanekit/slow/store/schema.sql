-- The slow lane's store. PRAGMA user_version says which version of this schema a file has;
-- store_file.MIGRATIONS brings older files up to date.
--
-- Events lie clustered by track: one agent of one worker of one stream. An event's id is
-- track << 40 | seq, so "the last steps of this agent" is a range of the table itself, no second
-- index is kept up to date while writing, and an event can not be stored twice.
-- JSON is TEXT, byte for byte as the worker wrote it. NULL: the worker gave none.

CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    started_ns INTEGER NOT NULL DEFAULT 0,
    ended_ns INTEGER NOT NULL DEFAULT 0,
    exit_status INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    command_json TEXT NOT NULL DEFAULT '[]',
    config_json TEXT,
    archived INTEGER NOT NULL DEFAULT 0,
    steps INTEGER NOT NULL DEFAULT 0,
    episodes INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    -- Grows with each change of any run.
    revision INTEGER NOT NULL
);
CREATE INDEX runs_by_revision ON runs (revision);

-- What one process added to a journal, and how much of it is committed. Version 3 adds `journal_id`
-- (the journal, and all copies of it), `continues` (the stream_id before it in the journal) and
-- `notice` (what is unusual about it, in words).
CREATE TABLE streams (
    stream INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs,
    stream_id TEXT NOT NULL,
    worker_id TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL DEFAULT 0,
    host TEXT NOT NULL DEFAULT '',
    spool_directory TEXT NOT NULL DEFAULT '',
    committed_steps INTEGER NOT NULL DEFAULT 0,
    committed_episodes INTEGER NOT NULL DEFAULT 0,
    committed_events INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    last_seen_ns INTEGER NOT NULL DEFAULT 0,
    -- open; completed, failed or lost by its own last words; silent: not heard of any more;
    -- aside: the daemon's own, which says nothing about the run; continued: another stream of the
    -- same journal goes on, and says how the worker fares.
    state TEXT NOT NULL DEFAULT 'open',
    ended_ns INTEGER NOT NULL DEFAULT 0,
    exit_status INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    UNIQUE (run, stream_id)
);

-- Version 2 adds `episodes_in_order`. 1: the episodes of the track's steps never fall, so one of
-- them is found by halving. 0: they do, or the track is older than this column.
CREATE TABLE tracks (
    track INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs,
    stream INTEGER NOT NULL REFERENCES streams,
    worker_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    UNIQUE (stream, worker_id, agent_id)
);
CREATE INDEX tracks_by_agent ON tracks (run, agent_id);

CREATE TABLE steps (
    id INTEGER PRIMARY KEY,
    episode INTEGER NOT NULL,
    step INTEGER NOT NULL,
    reward REAL,
    terminated INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    wall_time_ns INTEGER NOT NULL,
    action TEXT,
    observation TEXT,
    info TEXT,
    render_hint TEXT,
    seed INTEGER,
    extra TEXT,
    -- Protocol fields of a newer sender, serialised.
    unknown BLOB
);

-- The frame that came with a step, under the step's id.
CREATE TABLE frames (
    id INTEGER PRIMARY KEY,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    channels INTEGER NOT NULL,
    pixels BLOB NOT NULL
);

CREATE TABLE episodes (
    id INTEGER PRIMARY KEY,
    episode INTEGER NOT NULL,
    episode_return REAL,
    length INTEGER NOT NULL,
    terminated INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    wall_time_ns INTEGER NOT NULL,
    seed INTEGER,
    info TEXT,
    extra TEXT,
    unknown BLOB
);

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    wall_time_ns INTEGER NOT NULL,
    payload TEXT,
    extra TEXT,
    unknown BLOB
);

-- The order of commits: rows `position` to `position + rows - 1` of a run are numbers `first_seq` on
-- of `stream`. A batch that goes on where the last one of its run ended makes that row longer.
CREATE TABLE batches (
    kind TEXT NOT NULL,
    run INTEGER NOT NULL REFERENCES runs,
    position INTEGER NOT NULL,
    stream INTEGER NOT NULL REFERENCES streams,
    first_seq INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    PRIMARY KEY (kind, run, position)
) WITHOUT ROWID;

-- What was asked of a run's workers: pause, resume, stop.
CREATE TABLE commands (
    run INTEGER NOT NULL REFERENCES runs,
    command_id INTEGER NOT NULL,
    action INTEGER NOT NULL,
    created_ns INTEGER NOT NULL,
    PRIMARY KEY (run, command_id)
) WITHOUT ROWID;
