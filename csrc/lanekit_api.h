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
 *     meanwhile gets LK_E_CONCURRENT and nothing else happens. Some calls only look: *_config of
 *     what cannot change, *_state, lk_step_under_way, lk_step_failure, lk_frame_watched,
 *     lk_frame_heartbeat, and those of trajectories that ask for a view, a place or the writer's
 *     ring. They may be made beside any other, also beside one that waits. A handle inherited over
 *     fork() answers LK_E_FORKED.
 *   - *_close() ends the handle's use and may be called twice; *_free() also frees the handle.
 *   - Run ids are byte strings with an explicit size: any text works, of any length above zero.
 *   - Times are nanoseconds of CLOCK_MONOTONIC, which all processes of one boot share.
 *   - Segments are files of the caller's user that nobody else may write to; all others are
 *     refused with LK_E_UNTRUSTED. allow_uid, where a call takes it, points to the number of one
 *     more user whose segment is accepted (its group may write to it then); NULL: nobody else.
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
    LK_E_PERMISSION = -12,    /* the system lets this user neither read nor write it */
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
    LK_E_SCHEMA = -28,        /* the two ends do not mean the same records */
    LK_E_UNTRUSTED = -29      /* what has the name is another user's, no regular file, or a file
                                 that others may write to */
};

/* The name of a status, for logs: "LK_E_NOT_FOUND". */
const char *lk_status_name(int status);

/* ------------------------------------------------------------------ process and platform ---- */

enum lk_liveness { LK_DEAD = 0, LK_ALIVE = 1, LK_UNKNOWN = 2 /* the system cannot tell */ };

struct lk_platform_info {
    uint32_t atomics_lock_free; /* 1: 32- and 64-bit atomics never take a lock */
    uint32_t futex_works;       /* 1: cross-process futex; 0: bounded sleeps instead */
    uint32_t cache_line;        /* bytes */
    uint32_t layout_major;
    uint32_t layout_minor;
    char copy_method[32]; /* how frames are copied: "rep movsb", "vectors", "ldp/stp", ... */
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
 *   SIGTERM, SIGHUP, SIGINT, where they would kill the process: owned segments are invalidated and
 *   unlinked first. A handler the program has set is left alone, and so is an ignored signal.
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
    uint32_t owner;     /* enum lk_liveness */
    uint32_t owner_uid; /* who created the file */
    uint32_t foreign;   /* 1: owner_pid is a number of another pid namespace */
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
 * Attached readers are told first. LK_E_EXISTS when the owner lives, unless force is not zero.
 * LK_E_UNTRUSTED when it is another user's, forced or not.
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
                    uint64_t lease_ns, const uint32_t *allow_uid);

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
 * bytes, or is NULL. Returns the frame's sequence number, 0 when there is no such frame now. *info
 * is about the frame that was read; a call that had to give a frame up leaves seq 0 and
 * metadata_size -1 there, any other without a frame leaves it as it was.
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

/* ------------------------------------------------------------------------------ step lane ---- */

/*
 * A simulation engine (the server) and a trainer (the client) take turns on the same memory. An
 * exchange: the client writes actions, sends; the server steps, writes observations, commits. Each
 * exchange happens exactly once and is numbered from 1. With two halves the environments are split
 * in two, odd exchanges concern the first half and even ones the second, and the client may be one
 * exchange ahead: its policy works on one half while the engine steps the other.
 */

enum lk_step_mode { LK_STEP_TRAINING = 0, LK_STEP_INFERENCE = 1 };

enum lk_step_request {
    LK_STEP_STEP = 0, /* reset the flagged environments, step the others */
    LK_STEP_RESET = 1 /* reset the flagged environments, leave the others alone */
};

/* Values of a reset flag. */
enum lk_step_reset { LK_RESET_NO = 0, LK_RESET_PLAIN = 1, LK_RESET_SEEDED = 2 };

enum lk_gpu_obs_mode { LK_GPU_NONE = 0, LK_GPU_CUDA_IPC = 1, LK_GPU_VULKAN_EXTERNAL = 2 };

struct lk_step_config {
    uint32_t mode;   /* enum lk_step_mode */
    uint32_t halves; /* 1, or 2 for pipelined exchanges */
    uint32_t num_envs;
    uint32_t obs_size; /* items per environment */
    uint32_t act_size;
    uint32_t obs_item_size; /* bytes of one item: 1 to 16 */
    uint32_t act_item_size;
    uint32_t reward_size; /* bytes of one reward: 4, float, or 8, double */
    char obs_dtype[8];    /* numpy's type string, "<f4", padded with zeros */
    char act_dtype[8];
    uint32_t final_obs;        /* 1: a region for the last observations of ended episodes */
    uint32_t info_count;       /* named numbers per environment */
    uint32_t description_size; /* bytes of text for the client: spaces, names, units */
    uint32_t image_width;      /* all three 0: no image region */
    uint32_t image_height;
    uint32_t image_channels;
    uint64_t command_ring_size; /* bytes of each of the two rings, a multiple of 64; 0: none */
    uint32_t gpu_available;     /* the four below are carried, not used, by this library */
    uint32_t gpu_obs_mode;
    uint32_t gpu_device_id;
    uint8_t gpu_obs_handle[64];
};

/* Where the regions are; NULL for one that the configuration leaves out. */
struct lk_step_regions {
    void *obs;
    void *actions;
    void *rewards;
    uint8_t *dones;
    uint8_t *truncateds;
    uint8_t *resets; /* enum lk_step_reset */
    uint64_t *seeds; /* for LK_RESET_SEEDED */
    void *final_obs;
    double *infos;          /* [info_count][num_envs] */
    const char *info_names; /* [info_count][64], each ended by a zero */
    const char *description;
    uint8_t *images;
};

/* What the client asked for. */
struct lk_step_exchange {
    uint64_t number;  /* from 1 */
    uint32_t request; /* enum lk_step_request */
    uint32_t half;
    uint32_t first_env;
    uint32_t env_count;
};

struct lk_step_state {
    uint64_t sent;       /* exchanges that clients have asked for */
    uint64_t completed;  /* exchanges that the server has committed */
    uint32_t client_pid; /* 0: nobody is attached */
    uint32_t client;     /* enum lk_liveness */
};

/* Bytes a segment of this geometry takes, or an error. */
int64_t lk_step_segment_size(const struct lk_step_config *config);

/* Step-lane part of lk_segment_inspect. */
int lk_step_inspect(const char *name, struct lk_step_config *config, struct lk_step_state *state);

typedef struct lk_step_server lk_step_server;

/*
 * Create the lane and become its engine. info_names: info_count names of at most 63 bytes, each in
 * a field of 64; description: description_size bytes. Reclaims what a dead server left.
 */
int lk_step_create(lk_step_server **out, const char *name, size_t name_size,
                   const struct lk_step_config *config, const char *info_names,
                   const char *description);

/* The regions, with a reference to their memory for views that may outlive the server. */
int lk_step_server_regions(lk_step_server *server, lk_segment **segment,
                           struct lk_step_regions *out);

/*
 * Wait for the next exchange: 1 when there is one, 0 when timeout_ns passed first. LK_E_PEER_LOST
 * once for each client that died; calling again waits for its successor. LK_E_OUT_OF_TURN while
 * an exchange is still to be committed.
 */
int lk_step_wait_actions(lk_step_server *server, uint64_t timeout_ns, int strategy,
                         struct lk_step_exchange *out);

/* Complete the exchange: everything written into the regions before is the client's to read. The
 * reset flags of its environments are cleared. */
int lk_step_commit(lk_step_server *server);

/* End the lane with a reason, which the client gets to read: lk_step_failure. */
int lk_step_fail(lk_step_server *server, const char *reason, size_t reason_size);

int lk_step_server_state(lk_step_server *server, struct lk_step_state *out);
int lk_step_server_close(lk_step_server *server);
int lk_step_server_unlink(lk_step_server *server);
void lk_step_server_free(lk_step_server *server);

typedef struct lk_step_client lk_step_client;

/*
 * Take the trainer's place: LK_E_TAKEN while a live client holds it. A place that a dead client
 * left is taken over; exchanges that it had sent are completed first (LK_E_NOT_READY while they are
 * not: try again soon).
 */
int lk_step_attach(lk_step_client **out, const char *name, size_t name_size,
                   const uint32_t *allow_uid);

int lk_step_client_config(lk_step_client *client, struct lk_step_config *out);
int lk_step_client_regions(lk_step_client *client, lk_segment **segment,
                           struct lk_step_regions *out);

/* Hand the actions (and reset flags) to the server. LK_E_OUT_OF_TURN when as many exchanges are
 * under way as there are halves. Fills *out with what was sent. */
int lk_step_send(lk_step_client *client, uint32_t request, struct lk_step_exchange *out);

/* Wait until the oldest exchange under way is completed: 1, or 0 when timeout_ns passed first;
 * LK_E_PEER_LOST when the server died or left. */
int lk_step_receive(lk_step_client *client, uint64_t timeout_ns, int strategy,
                    struct lk_step_exchange *out);

/* lk_step_send and lk_step_receive in one call, for lanes of one half. */
int lk_step_step(lk_step_client *client, uint64_t timeout_ns, int strategy);

/* How many exchanges were sent and not received: 0 to the number of halves. */
int lk_step_under_way(lk_step_client *client);

/* Why the server left: bytes written to out, 0 when it gave no reason. */
int lk_step_failure(lk_step_client *client, char *out, size_t out_size);

int lk_step_client_state(lk_step_client *client, struct lk_step_state *out);
int lk_step_client_close(lk_step_client *client);
void lk_step_client_free(lk_step_client *client);
/* --------------------------------------------------------------------------- command lane ---- */

/*
 * The command channel of a step handle, which lends it and ends it: messages in both directions,
 * each delivered whole, once and in order. Sending and receiving are apart: one thread may send
 * while another receives.
 *
 * While a call has nothing to do, the channel looks whether the peer is still there: LK_E_PEER_LOST
 * when it died or left. What it sent before can be received first. When a successor has come, the
 * channel goes on with it; messages that its predecessor left unread are the successor's.
 */
typedef struct lk_cmd lk_cmd;

/* The largest message, in bytes. */
int64_t lk_cmd_limit(const lk_cmd *cmd);

/*
 * Send one message: 1, or 0 when the ring had no room for it until timeout_ns had passed.
 * LK_E_TOO_LARGE above the limit. strategy: enum lk_wait_strategy. UINT64_MAX waits for ever.
 */
int lk_cmd_send(lk_cmd *cmd, const void *payload, size_t size, uint64_t timeout_ns, int strategy);

/*
 * Receive the next message: 1 and its size, which may be 0; or 0 when none came until timeout_ns
 * had passed. LK_E_SIZE when `room` is less than *size: the message stays where it is.
 */
int lk_cmd_receive(lk_cmd *cmd, void *buffer, size_t room, size_t *size, uint64_t timeout_ns,
                   int strategy);

/* The size of the next message, which stays: 1, or 0 when none came until timeout_ns had passed. */
int lk_cmd_peek(lk_cmd *cmd, size_t *size, uint64_t timeout_ns, int strategy);

/* The command channel of a step handle, NULL if its lane has no rings. It is the handle's: usable
 * until the handle is closed, beside its exchanges and from other threads. */
lk_cmd *lk_step_server_commands(lk_step_server *server);
lk_cmd *lk_step_client_commands(lk_step_client *client);

/* ------------------------------------------------------------------------ trajectory lane ---- */

/* One field of a record: rows of a fixed shape. A ragged field has any number of rows, another
 * exactly one; an optional one may be missing. */
enum lk_traj_field_flag { LK_TRAJ_RAGGED = 1, LK_TRAJ_OPTIONAL = 2 };

enum lk_traj_limit { LK_TRAJ_FIELDS_MAX = 64, LK_TRAJ_RINGS_MAX = 1024 };

enum lk_traj_choice { LK_TRAJ_ANY_RING = 1024 }; /* beyond every ring */

struct lk_traj_field {
    char name[64]; /* UTF-8, filled up with zeros */
    char dtype[8]; /* as numpy writes it, "<f4", filled up with zeros */
    uint32_t item_size;
    uint32_t flags; /* enum lk_traj_field_flag */
    uint32_t dimensions;
    uint32_t reserved;
    uint64_t shape[5]; /* of one row */
};

struct lk_traj_config {
    uint32_t rings; /* producers at the same time */
    uint32_t fields;
    uint32_t schema_version;
    uint32_t reserved;
    uint64_t ring_size;  /* bytes for each producer, a multiple of 64 */
    uint64_t record_max; /* the most bytes of one record; 0: as much as fits, half a ring */
};

/* The rows of one field, in memory that belongs to the caller or to the ring. */
struct lk_traj_array {
    const void *data;
    uint64_t rows; /* UINT64_MAX: this record does not have the field */
};

struct lk_traj_record {
    const void *metadata;
    uint64_t metadata_size;
    uint64_t ticket; /* with ring, what lk_traj_release wants */
    uint32_t ring;
    uint32_t producer_pid;
    uint64_t session; /* with ring, one producer's stay */
    uint64_t number;  /* 1 for a producer's first record, then one more each */
    uint64_t timestamp_ns;
    uint64_t size; /* bytes it takes in the ring */
};

struct lk_traj_ring_status {
    uint32_t producer_pid; /* 0: nobody has this ring */
    uint32_t producer;     /* enum lk_liveness */
    uint32_t waiting;      /* 1: its producer sleeps for room */
    uint32_t spoiled;
    uint64_t session;
    uint64_t records;
    uint64_t bytes;
    uint64_t released;
    uint64_t depth_bytes; /* put, but not released */
    uint64_t stalls;
    uint64_t stalled_ns;
};

struct lk_traj_place {
    uint32_t ring;
    uint64_t session;
    uint64_t position; /* behind the last record that was put */
};

struct lk_traj_status {
    struct lk_traj_config config;
    uint32_t consumer_pid;
    uint32_t consumer; /* enum lk_liveness */
    uint64_t takeovers;
};

/* Bytes a segment of this geometry takes, or an error. */
int64_t lk_traj_segment_size(const struct lk_traj_config *config);

/* Bytes that a record with these rows takes of record_max, or an error. */
int64_t lk_traj_record_size(const struct lk_traj_field *fields, uint32_t count,
                            const uint64_t *rows, uint64_t metadata_size);

/* Trajectory part of lk_segment_inspect; fields and rings have room for the limits above, or are
 * NULL. */
int lk_traj_inspect(const char *name, struct lk_traj_status *out, struct lk_traj_field *fields,
                    struct lk_traj_ring_status *rings);

typedef struct lk_traj_reader lk_traj_reader;

/*
 * Create the run's lane and become its consumer. What a consumer left that died is taken over in
 * place, in its geometry: producers go on, and records that were not released come again. 1 when
 * that happened. LK_E_SCHEMA when its records have other fields.
 */
int lk_traj_create(lk_traj_reader **out, const char *run_id, size_t run_id_size,
                   const struct lk_traj_config *config, const struct lk_traj_field *fields);

int lk_traj_reader_config(lk_traj_reader *reader, struct lk_traj_config *out);

/* Wait until there is a record: 1, or 0 when timeout_ns passed first. */
int lk_traj_wait(lk_traj_reader *reader, uint64_t timeout_ns);

/*
 * Take up to `most` records that are there now, in turn from all producers: their number, 0 for
 * none. arrays has room for `most` times the schema's fields. What they point to stays until the
 * record is released. LK_E_CORRUPT, once for each ring that no correct producer can have written:
 * it is left out from then on, and *spoiled names it.
 */
int lk_traj_take(lk_traj_reader *reader, uint32_t most, struct lk_traj_record *records,
                 struct lk_traj_array *arrays, uint32_t *spoiled);

/* Give a record's room back, in any order. From here on it is never delivered again. */
int lk_traj_release(lk_traj_reader *reader, uint32_t ring, uint64_t ticket);

/* 1 when the reader has taken all there is and some producer sleeps for the room of records that
 * were not released: from that one nothing more will come before they are. */
int lk_traj_exhausted(lk_traj_reader *reader);

/* A reference to the mapping, for views that may outlive the reader. */
int lk_traj_reader_view(lk_traj_reader *reader, lk_segment **segment);

/* Statistics of all rings; rings has room for config.rings. */
int lk_traj_reader_rings(lk_traj_reader *reader, struct lk_traj_ring_status *rings);

/* Leave the lane for a successor instead of ending it; close ends it. */
int lk_traj_reader_leave(lk_traj_reader *reader);
int lk_traj_reader_close(lk_traj_reader *reader);
int lk_traj_reader_unlink(lk_traj_reader *reader);
void lk_traj_reader_free(lk_traj_reader *reader);

typedef struct lk_traj_writer lk_traj_writer;

/*
 * Join the run as a producer: claims a ring that is free or whose producer died. LK_E_TAKEN when
 * there is none. fields may be NULL; otherwise LK_E_SCHEMA unless the lane has exactly these.
 * absence_ns: how long a full lane may be without a consumer before LK_E_PEER_LOST.
 */
int lk_traj_attach(lk_traj_writer **out, const char *run_id, size_t run_id_size,
                   const struct lk_traj_field *fields, uint32_t count, uint32_t schema_version,
                   uint64_t absence_ns, const uint32_t *allow_uid);

/*
 * Join as a producer whose ring is kept for its successor if its process dies: no other producer
 * takes it. ring is LK_TRAJ_ANY_RING, or the one that a dead predecessor had: its records stay in
 * front of ours, and lk_traj_writer_place says how far it came. LK_E_TAKEN while the predecessor
 * lives, and when the ring was not left by one.
 */
int lk_traj_attach_kept(lk_traj_writer **out, const char *run_id, size_t run_id_size, uint32_t ring,
                        uint64_t absence_ns, const uint32_t *allow_uid);

/* Where a producer is. The position only ever grows, with each record that is put, whoever puts it.
 */
int lk_traj_writer_place(lk_traj_writer *writer, struct lk_traj_place *out);

/* The lane's geometry and schema; fields has room for LK_TRAJ_FIELDS_MAX, or is NULL. */
int lk_traj_writer_config(lk_traj_writer *writer, struct lk_traj_config *out,
                          struct lk_traj_field *fields);

/*
 * Copy one record into the lane; waits while it is full. arrays has one entry for each field.
 * Returns the record's number, 0 when timeout_ns passed first: nothing was put then.
 */
int64_t lk_traj_put(lk_traj_writer *writer, const struct lk_traj_array *arrays,
                    const void *metadata, size_t metadata_size, uint64_t timeout_ns);

/* Lend the room of a record, to fill in place: data[i] for field i, NULL for those with rows[i] ==
 * UINT64_MAX. 1, or 0 when timeout_ns passed first. */
int lk_traj_reserve(lk_traj_writer *writer, const uint64_t *rows, size_t metadata_room,
                    uint64_t timeout_ns, void **data);
int64_t lk_traj_commit(lk_traj_writer *writer, const void *metadata, size_t metadata_size);
int lk_traj_abandon(lk_traj_writer *writer);
int lk_traj_writer_view(lk_traj_writer *writer, lk_segment **segment);

/* This producer's ring, and what was counted there. */
int lk_traj_writer_ring(lk_traj_writer *writer, struct lk_traj_ring_status *out);

int lk_traj_writer_close(lk_traj_writer *writer);
void lk_traj_writer_free(lk_traj_writer *writer);

/*
 * Copy the rows of several records into one dense array of count * length rows, and fill what is
 * left with an item: arrays[i * step] is record i's. LK_E_SIZE when one has more than length rows.
 */
int lk_traj_pad(const struct lk_traj_array *arrays, uint32_t count, uint32_t step,
                uint64_t row_size, uint64_t length, const void *item, uint32_t item_size,
                void *out);
