/*
 * lanekit_api.h: every public declaration of the C core, and nothing else.
 *
 * Free of preprocessor lines so that one file serves two readers: C and C++ compilers (through
 * lanekit.h, which adds guards and linkage) and cffi (which parses it to build the Python binding).
 *
 * Conventions
 *   - A function returns >= 0 on success and a negative enum lk_status otherwise. After
 *     LK_E_SYSTEM, errno holds the reason.
 *   - Handles are opaque. One handle belongs to one thread at a time: a second thread that calls in
 *     meanwhile gets LK_E_CONCURRENT and nothing else happens. A handle inherited over fork()
 *     answers LK_E_FORKED.
 *   - *_close() ends the handle's use and may be called twice; *_free() also frees the handle.
 *   - Run ids are byte strings with an explicit size: any text works, of any length above zero.
 *   - Times are nanoseconds of CLOCK_MONOTONIC, which all processes of one boot share.
 */

enum lk_status {
    LK_OK = 0,
    LK_E_SYSTEM = -1,         /* an operating-system call failed; see errno */
    LK_E_INVALID = -2,        /* an argument is outside its documented range */
    LK_E_NOT_FOUND = -3,      /* no segment of that name */
    LK_E_NOT_READY = -4,      /* the segment is still being built: try again soon */
    LK_E_EXISTS = -5,         /* a live owner holds the name */
    LK_E_WRONG_KIND = -6,     /* not a lanekit segment of the kind asked for */
    LK_E_WRONG_VERSION = -7,  /* another major layout version */
    LK_E_TRUNCATED = -8,      /* the file is shorter than its header says */
    LK_E_BAD_GEOMETRY = -9,   /* sizes in the header contradict each other or the limits */
    LK_E_CORRUPT = -10,       /* shared state no correct writer can have produced */
    LK_E_NO_SPACE = -11,      /* shared memory is full */
    LK_E_PERMISSION = -12,    /* another user's segment */
    LK_E_CLOSED = -13,        /* the handle was closed */
    LK_E_FORKED = -14,        /* the handle was inherited over fork() */
    LK_E_CONCURRENT = -15,    /* two threads used one handle at once */
    LK_E_INVALIDATED = -16,   /* the segment was marked as left; create a new one */
    LK_E_SIZE = -17,          /* a buffer does not have the size the geometry asks for */
    LK_E_METADATA_SIZE = -18, /* more metadata than the segment reserves per frame */
    LK_E_RESERVED = -19,      /* a reserved slot is still out: commit or abandon it first */
    LK_E_NOT_RESERVED = -20,  /* commit or abandon without a reserved slot */
    LK_E_TOO_MANY = -21,      /* this process holds as many segments as the core can track */
    LK_E_OVERWRITTEN = -22,   /* the writer lapped the slot while it was being looked at */
    LK_E_MOVED = -23,         /* the reader moved to a new writer's segment: look at its config */
    LK_E_PEER_LOST = -24,     /* the process at the other end died or left */
    LK_E_TAKEN = -25,         /* another live process holds the one place there is */
    LK_E_OUT_OF_TURN = -26,   /* the call does not fit the state of the exchange */
    LK_E_TOO_LARGE = -27,     /* more than the ring can ever carry in one piece */
    LK_E_SCHEMA = -28         /* the two ends do not mean the same records */
};

/* The name of a status, for logs: "LK_E_NOT_FOUND". */
const char *lk_status_name(int status);

/* ------------------------------------------------------------------ process and platform ---- */

enum lk_liveness { LK_DEAD = 0, LK_ALIVE = 1, LK_UNKNOWN = 2 /* another pid namespace */ };

struct lk_platform_info {
    uint32_t atomics_lock_free; /* 1: 32- and 64-bit atomics never take a lock */
    uint32_t futex_works;       /* 1: cross-process futex; 0: bounded sleeps instead */
    uint32_t cache_line;        /* bytes */
    uint32_t layout_major;
    uint32_t layout_minor;
    char copy_method[32]; /* how frames are copied: "rep movsb", "ldp/stp", "atomic words" */
    char compiler[64];
};

/* Describe what the core can do on this machine. */
int lk_platform_describe(struct lk_platform_info *out);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t lk_clock_ns(void);

/*
 * Install this process's safety net; the Python package does so on first use, C programs choose.
 *   SIGBUS: a segment that another process truncates under us reads as zeros and every later call
 *   on it answers LK_E_TRUNCATED. Faults elsewhere go to the handler that was there before.
 *   SIGTERM, SIGHUP, where they would kill the process: owned segments are invalidated and
 *   unlinked first. A handler the program has set is left alone.
 */
int lk_process_protect(void);

/* ------------------------------------------------------------------------------ segments ---- */

enum lk_kind { LK_KIND_UNKNOWN = 0, LK_KIND_FRAME = 1, LK_KIND_STEP = 2, LK_KIND_TRAJ = 3 };

enum lk_segment_flag { LK_FLAG_INVALIDATED = 1 };

struct lk_segment_info {
    uint32_t kind; /* enum lk_kind */
    uint32_t version_major;
    uint32_t version_minor;
    uint32_t flags; /* enum lk_segment_flag */
    uint32_t owner_pid;
    uint32_t owner; /* enum lk_liveness */
    uint64_t total_size;
    uint64_t created_unix_ns;
    uint64_t heartbeat_ns;
    uint32_t run_id_size;
    char run_id[376]; /* the id, or its first bytes when run_id_size == 376 */
};

/*
 * Write the segment name of a run, "lanekit-<kind>-<slug>-<hash>", with a terminating zero: the
 * slug keeps it readable, 64 bits of the id's SHA-256 keep ids apart. LK_E_SIZE when out is small.
 */
int lk_segment_name(uint32_t kind, const char *run_id, size_t run_id_size, char *out,
                    size_t out_size);

/* LK_OK if lk_segment_reclaim would remove this segment without force, else why not. */
int lk_segment_judge(const char *name);

/* Read a segment's header without joining it; after LK_E_WRONG_VERSION, LK_E_TRUNCATED and
 * LK_E_BAD_GEOMETRY the owner is filled in all the same. */
int lk_segment_inspect(const char *name, struct lk_segment_info *out);

/*
 * Remove a segment that nobody owns any more: the owner died, left, or died while creating it.
 * Attached readers are told first. LK_E_EXISTS when the owner lives (or may live, in another pid
 * namespace), unless force is not zero.
 */
int lk_segment_reclaim(const char *name, int force);

/*
 * A mapping that views hold on to. The calls that lend memory beyond the life of their handle give
 * the caller one reference; the memory stays until the last reference is released.
 */
typedef struct lk_segment lk_segment;
void lk_segment_release(lk_segment *segment);

/* ------------------------------------------------------------------------------ fast lane ---- */

enum lk_pixel_format { LK_PIXEL_RGB = 1, LK_PIXEL_RGBA = 2, LK_PIXEL_BGRX = 3, LK_PIXEL_GRAY = 4 };

struct lk_frame_config {
    uint32_t width;
    uint32_t height;
    uint32_t channels;
    uint32_t pixel_format;  /* enum lk_pixel_format; its channel count must equal channels */
    uint32_t capacity;      /* slots in the ring, 1 or more */
    uint32_t metadata_size; /* bytes reserved per frame for metadata */
};

struct lk_frame_metrics {
    double last_reward;
    double rolling_return;
    double step_rate_hz;
};

struct lk_frame_info {
    uint64_t seq; /* 1 for the writer's first frame */
    uint64_t timestamp_ns;
    uint64_t skipped; /* frames between the last one this reader had and this one */
    struct lk_frame_metrics metrics;
    int64_t metadata_size; /* -1: the frame carries none */
};

struct lk_frame_stats {
    uint64_t frames_read;
    uint64_t skipped;    /* frames this reader never had */
    uint64_t retries;    /* copies thrown away because the writer lapped them */
    uint64_t starved;    /* reads that gave up: the writer lapped every attempt */
    uint64_t reattached; /* times this reader moved to a new writer's segment */
};

struct lk_frame_status {
    uint64_t head;    /* frames published so far */
    uint64_t viewers; /* readers whose process is alive */
    struct lk_frame_config config;
};

/* Bytes a segment of this geometry takes, or an error. */
int64_t lk_frame_segment_size(const struct lk_frame_config *config);

/* Fast-lane part of lk_segment_inspect. */
int lk_frame_inspect(const char *name, struct lk_frame_status *out);

typedef struct lk_frame_writer lk_frame_writer;

/* Create the run's segment and become its writer. Reclaims what a dead writer left. */
int lk_frame_create(lk_frame_writer **out, const char *run_id, size_t run_id_size,
                    const struct lk_frame_config *config);

/*
 * Copy one frame into the ring and publish it; never waits. pixels_size must be width * height *
 * channels. metadata may be NULL. Returns the frame's sequence number.
 */
int64_t lk_frame_publish(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                         const void *metadata, size_t metadata_size);

/* The same, with new metrics; lk_frame_publish repeats the last ones. */
int64_t lk_frame_publish_metrics(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                                 const void *metadata, size_t metadata_size, double last_reward,
                                 double rolling_return, double step_rate_hz);

/* The same for a frame that stays at one address, described once: for callers to whom each argument
 * costs time, as it does through a foreign-function interface. */
struct lk_frame_source {
    lk_frame_writer *writer;
    const void *pixels;
};
int64_t lk_frame_publish_source(const struct lk_frame_source *source);

/* Lend the next slot's pixels to render into. Returns the slot's index. */
int64_t lk_frame_reserve(lk_frame_writer *writer, void **pixels);

/* A slot's pixels with a reference to their memory, for views that may outlive the writer. */
int lk_frame_writer_view(lk_frame_writer *writer, uint32_t slot, lk_segment **segment,
                         void **pixels);

/* Publish the reserved slot, or put it back; the slot's previous frame is lost either way. */
int64_t lk_frame_commit(lk_frame_writer *writer);
int64_t lk_frame_commit_metadata(lk_frame_writer *writer, const void *metadata,
                                 size_t metadata_size);
int lk_frame_abandon(lk_frame_writer *writer);

/* Metrics without a frame; they also go with the frames that follow. */
int lk_frame_set_metrics(lk_frame_writer *writer, double last_reward, double rolling_return,
                         double step_rate_hz);

/* 1 while some reader has read or waited within its lease, else 0. One load and a clock read. */
int lk_frame_watched(lk_frame_writer *writer);

/* Note that the writer is alive; publishing does so by itself. */
int lk_frame_heartbeat(lk_frame_writer *writer);

/* Tell the readers that this writer left; publishing ends. */
int lk_frame_invalidate(lk_frame_writer *writer);

int lk_frame_writer_close(lk_frame_writer *writer);
int lk_frame_writer_unlink(lk_frame_writer *writer);
void lk_frame_writer_free(lk_frame_writer *writer);

typedef struct lk_frame_reader lk_frame_reader;

/*
 * Join the run as a reader. lease_ns: how long one read counts as somebody watching; 0 reads
 * without being counted.
 *
 * When the writer leaves and a new one comes, a reader moves to the new segment by itself: the call
 * that moved answers LK_E_MOVED and did nothing else, and so do all until lk_frame_reader_config
 * was called. Then repeat the call.
 */
int lk_frame_attach(lk_frame_reader **out, const char *run_id, size_t run_id_size,
                    uint64_t lease_ns);

/* The geometry of the segment the reader is on now. */
int lk_frame_reader_config(lk_frame_reader *reader, struct lk_frame_config *out);

/* Which frame a reading call takes. */
enum lk_frame_choice {
    LK_FRAME_NEWEST = 0, /* the newest one, again if need be */
    LK_FRAME_FRESH = 1,  /* the newest one, if this reader has not had it yet */
    LK_FRAME_NEXT = 2    /* the oldest one in the ring after the last this reader had */
};

/*
 * Copy a frame into pixels (exactly one frame long); metadata has room for config.metadata_size
 * bytes, or is NULL. Returns the frame's sequence number, 0 when there is no such frame now.
 */
int64_t lk_frame_read(lk_frame_reader *reader, int choice, void *pixels, size_t pixels_size,
                      void *metadata, size_t metadata_size, struct lk_frame_info *info);

/* A place that frames are read into again and again, described once; see lk_frame_source. */
struct lk_frame_target {
    lk_frame_reader *reader;
    int choice;
    void *pixels;
    size_t pixels_size;
    void *metadata;
    size_t metadata_size;
    struct lk_frame_info *info;
};
int64_t lk_frame_read_target(const struct lk_frame_target *target);

/*
 * Look at a frame in place: slot number *slot, at *pixels. What was seen counts, and the reader
 * has had the frame, only if lk_frame_peek_check answers LK_OK for its sequence number afterwards
 * (else LK_E_OVERWRITTEN).
 */
int64_t lk_frame_peek(lk_frame_reader *reader, int choice, const void **pixels, uint32_t *slot,
                      void *metadata, size_t metadata_size, struct lk_frame_info *info);
int lk_frame_peek_check(lk_frame_reader *reader, uint64_t seq);

/*
 * Convert pixels of a format (enum lk_pixel_format) in one pass to those that screens take: blue,
 * green, red, 255. `from` is what lk_frame_peek found, a slot's beginning; `out` has room for
 * 4 * count bytes. What it answers is only that it was done: lk_frame_peek_check tells whether the
 * frame stayed whole.
 */
int lk_pixels_to_bgrx(void *out, const void *from, size_t count, int pixel_format);

/* A slot's pixels with a reference to their memory, for views that may outlive the reader. */
int lk_frame_reader_view(lk_frame_reader *reader, uint32_t slot, lk_segment **segment,
                         const void **pixels);

enum lk_wait_strategy { LK_WAIT_HYBRID = 0, LK_WAIT_SPIN = 1, LK_WAIT_BLOCK = 2 };

/* Wait for a frame this reader has not had: 1 when there is one, 0 when timeout_ns passed first.
 * While no writer is there it waits for the next one. */
int lk_frame_wait(lk_frame_reader *reader, uint64_t timeout_ns, int strategy);

/* The newest metrics, which may be newer than any frame: 1, or 0 when the writer died changing
 * them. */
int lk_frame_metrics(lk_frame_reader *reader, struct lk_frame_metrics *out);

/* Whether the run has a writer: enum lk_liveness, LK_DEAD when it left and no new one is there. */
int lk_frame_writer_liveness(lk_frame_reader *reader);

int lk_frame_reader_stats(lk_frame_reader *reader, struct lk_frame_stats *out);
int lk_frame_reader_close(lk_frame_reader *reader);
void lk_frame_reader_free(lk_frame_reader *reader);
