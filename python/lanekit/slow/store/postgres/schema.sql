-- The slow lane's store in PostgreSQL; ../schema.sql says what the tables mean. The differences:
-- table `version` says which version of this schema a database has (migrations.MIGRATIONS brings
-- older ones up to date), and runs and streams know the daemon that looks after them.
-- JSON is TEXT, byte for byte as the worker wrote it, not JSONB, which keeps neither order nor
-- numbers. Names are compared byte by byte, as in SQLite.

CREATE TABLE version (version BIGINT NOT NULL);

CREATE TABLE daemons (
    daemon TEXT COLLATE "C" PRIMARY KEY,
    host TEXT NOT NULL,
    seen TIMESTAMPTZ NOT NULL
);

CREATE TABLE runs (
    run BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id TEXT COLLATE "C" NOT NULL UNIQUE,
    state TEXT NOT NULL,
    created_ns BIGINT NOT NULL,
    started_ns BIGINT NOT NULL DEFAULT 0,
    ended_ns BIGINT NOT NULL DEFAULT 0,
    exit_status BIGINT,
    reason TEXT NOT NULL DEFAULT '',
    command_json TEXT NOT NULL DEFAULT '[]',
    config_json TEXT,
    archived SMALLINT NOT NULL DEFAULT 0,
    steps BIGINT NOT NULL DEFAULT 0,
    episodes BIGINT NOT NULL DEFAULT 0,
    events BIGINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    -- The transaction that changed the run last.
    revision BIGINT NOT NULL,
    daemon TEXT COLLATE "C" NOT NULL DEFAULT coalesce(current_setting('lanekit.daemon', true), '')
) WITH (fillfactor = 50); -- rewritten with every batch: room for it on the same page
CREATE INDEX runs_by_revision ON runs (revision);

CREATE TABLE streams (
    stream BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL REFERENCES runs,
    stream_id TEXT COLLATE "C" NOT NULL,
    worker_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    pid BIGINT NOT NULL DEFAULT 0,
    host TEXT NOT NULL DEFAULT '',
    spool_directory TEXT NOT NULL DEFAULT '',
    committed_steps BIGINT NOT NULL DEFAULT 0,
    committed_episodes BIGINT NOT NULL DEFAULT 0,
    committed_events BIGINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    last_seen_ns BIGINT NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'open',
    ended_ns BIGINT NOT NULL DEFAULT 0,
    exit_status BIGINT,
    reason TEXT NOT NULL DEFAULT '',
    daemon TEXT COLLATE "C" NOT NULL DEFAULT coalesce(current_setting('lanekit.daemon', true), ''),
    UNIQUE (run, stream_id)
) WITH (fillfactor = 50);
CREATE INDEX streams_that_are_open ON streams (daemon) WHERE state = 'open';

-- Numbers are few (MAX_TRACK), and a rolled back transaction does not give a sequence's back: its
-- writer keeps them for the next one.
CREATE SEQUENCE track_numbers;
CREATE TABLE tracks (
    track BIGINT PRIMARY KEY,
    run BIGINT NOT NULL REFERENCES runs,
    stream BIGINT NOT NULL REFERENCES streams,
    worker_id TEXT COLLATE "C" NOT NULL,
    agent_id TEXT COLLATE "C" NOT NULL,
    episodes_in_order SMALLINT NOT NULL,
    UNIQUE (stream, worker_id, agent_id)
);
CREATE INDEX tracks_by_agent ON tracks (run, agent_id);

-- Wide columns first: so no byte is lost to alignment.
CREATE TABLE steps (
    id BIGINT PRIMARY KEY,
    episode BIGINT NOT NULL,
    step BIGINT NOT NULL,
    wall_time_ns BIGINT NOT NULL,
    reward DOUBLE PRECISION,
    seed BIGINT,
    terminated BOOLEAN NOT NULL,
    truncated BOOLEAN NOT NULL,
    action TEXT,
    observation TEXT,
    info TEXT,
    render_hint TEXT,
    extra TEXT,
    unknown BYTEA
);

-- Pixels are not compressed: that would cost more time than all the rest.
CREATE TABLE frames (
    id BIGINT PRIMARY KEY,
    width BIGINT NOT NULL,
    height BIGINT NOT NULL,
    channels BIGINT NOT NULL,
    pixels BYTEA NOT NULL
);
ALTER TABLE frames ALTER pixels SET STORAGE EXTERNAL;

CREATE TABLE episodes (
    id BIGINT PRIMARY KEY,
    episode BIGINT NOT NULL,
    episode_return DOUBLE PRECISION,
    length BIGINT NOT NULL,
    terminated BOOLEAN NOT NULL,
    truncated BOOLEAN NOT NULL,
    wall_time_ns BIGINT NOT NULL,
    seed BIGINT,
    info TEXT,
    extra TEXT,
    unknown BYTEA
);

CREATE TABLE events (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    wall_time_ns BIGINT NOT NULL,
    payload TEXT,
    extra TEXT,
    unknown BYTEA
);

CREATE TABLE batches (
    kind TEXT COLLATE "C" NOT NULL,
    run BIGINT NOT NULL REFERENCES runs,
    position BIGINT NOT NULL,
    stream BIGINT NOT NULL REFERENCES streams,
    first_seq BIGINT NOT NULL,
    rows BIGINT NOT NULL,
    PRIMARY KEY (kind, run, position)
) WITH (fillfactor = 50);

CREATE TABLE commands (
    run BIGINT NOT NULL REFERENCES runs,
    command_id BIGINT NOT NULL,
    action BIGINT NOT NULL,
    created_ns BIGINT NOT NULL,
    PRIMARY KEY (run, command_id)
);
