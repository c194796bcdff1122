/*
 * lk_layout.h: the bytes lanekit puts into shared memory.
 *
 * This is an interface between processes, possibly written in other languages: docs/layout.md
 * explains it with test vectors. All integers are little-endian and naturally aligned, floats are
 * IEEE 754 doubles stored as their 64 bits. The first 512 bytes are common to every kind of
 * segment, and the first 128 of them keep their meaning from version 2 on. Whether a segment is an
 * orphan is told by its locks, which enum lk_role lists, not by its content.
 *
 *   fast lane segment ("FLAN")
 *   +--------+-----------------------------------------------------------+
 *   |      0 | common header (identity, ready word, flags, run id)       |
 *   |    512 | frame geometry, constant once ready                       |
 *   |    576 | head: frames published, wakes        written by the writer|
 *   |    640 | wake_at, watched_until               written by readers   |
 *   |    704 | newest metrics under their own seqlock          the writer|
 *   |   1024 | 32 viewer entries, one cache line each          one reader|
 *   |   4096 | slot 0                                                    |
 *   |    ... | slot capacity-1                                           |
 *   +--------+-----------------------------------------------------------+
 *
 *   slot (slot_stride bytes)
 *   +--------+-----------------------------------------------------------+
 *   |      0 | seq: 2n-1 while frame n is written, 2n once it is complete|
 *   |      8 | timestamp, metrics, metadata size of that frame           |
 *   |     64 | pixels, padded to 64                                      |
 *   |   64+p | metadata, padded to 64                                    |
 *   +--------+-----------------------------------------------------------+
 *
 *   step lane segment ("LRBC")
 *   +--------+-----------------------------------------------------------+
 *   |      0 | common header                                             |
 *   |    512 | step geometry, constant once ready                        |
 *   |   1024 | client: who holds the trainer's place      the client     |
 *   |   1088 | action_seq, frame_wake_at, requests        the client     |
 *   |   1152 | frame_seq, action_wake_at                  the server     |
 *   |   1216 | why the server left                        the server     |
 *   |   4096 | regions in the order of their offsets, each on a cache    |
 *   |    ... | line: observations, actions, rewards, ...                 |
 *   +--------+-----------------------------------------------------------+
 *
 * Fields written by different parties sit on different cache lines.
 */
#ifndef LK_LAYOUT_H
#define LK_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Nothing here swaps bytes, so a big-endian build would write segments nobody else can read. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lanekit's layout is little-endian: build it for a little-endian machine"
#endif

#define LK_CACHE_LINE 64u
#define LK_LAYOUT_MAJOR 2u
#define LK_LAYOUT_MINOR 0u
#define LK_HEADER_SIZE 4096u
#define LK_RUN_ID_MAX 376u

#define LK_MAGIC_FRAME 0x464C414Eu /* "FLAN" */
#define LK_MAGIC_STEP 0x4C524243u  /* "LRBC" */
#define LK_MAGIC_TRAJ 0x5452414Au  /* "TRAJ" */
#define LK_READY 0x52454459u       /* "REDY"; zero while the owner still builds the segment */

/*
 * Roles: bytes of the file that are locked (fcntl, F_OFD_SETLK, exclusive) by whoever has the role,
 * through an open file that is not mapped, until it leaves or dies. What the bytes hold does not
 * matter. A free role of a segment that is ready means that its holder left or died.
 */
enum lk_role {
    LK_ROLE_NAME = 0,       /* for a moment: creating, taking over and removing */
    LK_ROLE_OWNER = 1,      /* the writer, the engine, the consumer of trajectories */
    LK_ROLE_CLIENT = 2,     /* step lane: the trainer */
    LK_ROLE_VIEWER = 64,    /* fast lane: the reader that has viewer entry i: LK_ROLE_VIEWER + i */
    LK_ROLE_PRODUCER = 1024 /* trajectory lane: whoever puts into ring i: LK_ROLE_PRODUCER + i */
};

struct lk_segment_header {
    /* Constant once ready. */
    uint32_t magic;
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t header_size;
    uint32_t owner_pid;
    uint64_t total_size;
    uint64_t created_unix_ns;
    uint64_t owner_pid_namespace; /* inode of /proc/<pid>/ns/pid, 0: not known; for people */
    uint8_t reserved_owner[24];

    /* Changes over the segment's life. */
    _Atomic uint32_t ready;
    _Atomic uint32_t flags;
    _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC, refreshed at most every 100 ms */
    uint8_t reserved_state[48];

    /* Constant once ready. */
    uint32_t run_id_size;
    uint32_t reserved_run;
    char run_id[LK_RUN_ID_MAX]; /* UTF-8, not terminated; a longer id keeps its first bytes */
};

struct lk_frame_geometry {
    uint32_t width;
    uint32_t height;
    uint32_t channels;
    uint32_t pixel_format;
    uint32_t capacity;
    uint32_t metadata_size;
    uint64_t payload_size; /* width * height * channels */
    uint64_t slot_stride;
    uint64_t slots_offset;
    uint64_t metadata_offset; /* from the start of a slot */
    uint8_t reserved[8];
};

struct lk_frame_viewer {
    _Atomic uint64_t pid; /* 0: free; for people, the role decides */
    _Atomic uint64_t last_seen_ns;
    _Atomic uint64_t frames_read;
    uint8_t reserved[40];
};

#define LK_FRAME_VIEWERS 32u

struct lk_frame_header {
    struct lk_segment_header segment;
    struct lk_frame_geometry geometry;

    _Atomic uint64_t head;  /* frames published; its low half is the futex word */
    _Atomic uint64_t wakes; /* 1 once the writer looks for sleepers: since there was one */
    uint8_t reserved_head[48];

    _Atomic uint64_t wake_at;          /* a reader sleeps until head reaches this */
    _Atomic uint64_t watched_until_ns; /* a reader has looked recently */
    uint8_t reserved_viewers[48];

    _Atomic uint64_t metrics_seq; /* odd while the three below change */
    _Atomic uint64_t last_reward;
    _Atomic uint64_t rolling_return;
    _Atomic uint64_t step_rate_hz;
    uint8_t reserved_metrics[288];

    struct lk_frame_viewer viewers[LK_FRAME_VIEWERS];
    uint8_t reserved_tail[1024];
};

#define LK_NO_METADATA UINT64_MAX

struct lk_frame_slot {
    _Atomic uint64_t seq;
    _Atomic uint64_t timestamp_ns;
    _Atomic uint64_t last_reward;
    _Atomic uint64_t rolling_return;
    _Atomic uint64_t step_rate_hz;
    _Atomic uint64_t metadata_size; /* LK_NO_METADATA: none */
    uint8_t reserved[16];
    _Atomic uint64_t pixels[]; /* in words, so that a portable copy of them is race-free */
};

#define LK_STEP_HALVES_MAX 2u
#define LK_STEP_INFO_NAME 64u
#define LK_STEP_FAILURE_MAX 1024u

struct lk_step_geometry {
    uint8_t mode; /* enum lk_step_mode */
    uint8_t halves;
    uint8_t gpu_available;
    uint8_t gpu_obs_mode; /* enum lk_gpu_obs_mode */
    uint32_t num_envs;
    uint32_t obs_size; /* items per environment */
    uint32_t act_size;
    char obs_dtype[8]; /* numpy's type string, "<f4", padded with zeros */
    char act_dtype[8];
    uint32_t obs_item_size; /* bytes */
    uint32_t act_item_size;
    uint32_t info_count;
    uint32_t description_size;
    uint32_t image_width;
    uint32_t image_height;
    uint32_t image_channels;
    uint32_t gpu_device_id;
    uint8_t gpu_obs_handle[64]; /* cudaIpcMemHandle_t */
    /* From the start of the segment; 0: there is no such region. */
    uint64_t obs_offset;         /* [num_envs][obs_size]    the server writes */
    uint64_t act_offset;         /* [num_envs][act_size]    the client writes */
    uint64_t rewards_offset;     /* float or double [num_envs]   the server writes */
    uint64_t dones_offset;       /* u8 [num_envs]           the server writes */
    uint64_t truncateds_offset;  /* u8 [num_envs]           the server writes */
    uint64_t resets_offset;      /* u8 [num_envs]           the client sets, the server clears */
    uint64_t seeds_offset;       /* u64 [num_envs]          the client writes */
    uint64_t final_obs_offset;   /* [num_envs][obs_size]    the server writes */
    uint64_t infos_offset;       /* double [info_count][num_envs]   the server writes */
    uint64_t info_names_offset;  /* char [info_count][64]   constant once ready */
    uint64_t description_offset; /* UTF-8                  constant once ready */
    uint64_t cmd_s2c_offset;     /* struct lk_ring_header, then cmd_ring_size bytes */
    uint64_t cmd_c2s_offset;
    uint64_t cmd_ring_size;
    uint64_t image_offset; /* u8 [num_envs][height][width][channels]   the server writes */
    uint32_t reward_size;  /* bytes of one reward: 4, float, or 8, double */
    uint8_t reserved[260];
};

struct lk_step_header {
    struct lk_segment_header segment;
    struct lk_step_geometry geometry;

    _Atomic uint64_t client;  /* pid << 32 | low half of clients; 0: nobody, or it left */
    _Atomic uint64_t clients; /* counts those that had the place */
    uint8_t reserved_client[48];

    _Atomic uint64_t action_seq;    /* exchanges asked for; its low half is a futex word */
    _Atomic uint64_t frame_wake_at; /* the client sleeps until frame_seq reaches this */
    _Atomic uint32_t requests[LK_STEP_HALVES_MAX]; /* enum lk_step_request of each half */
    uint8_t reserved_actions[40];

    _Atomic uint64_t frame_seq;      /* exchanges completed; its low half is a futex word */
    _Atomic uint64_t action_wake_at; /* the server sleeps until action_seq reaches this */
    uint8_t reserved_frames[48];

    _Atomic uint32_t failure_size; /* written before the segment is invalidated */
    char failure[LK_STEP_FAILURE_MAX];
    uint8_t reserved_tail[1852];
};

/*
 *   trajectory lane segment ("TRAJ")
 *   +--------+-----------------------------------------------------------+
 *   |      0 | common header; the owner is the consumer, and changes     |
 *   |        | when a successor takes the lane over                      |
 *   |    512 | geometry, constant once ready                             |
 *   |    576 | consumer, takeovers, asleep          written by consumers |
 *   |    640 | bell: the consumer's futex word      written by producers |
 *   |   4096 | schema: one entry of 128 bytes per field, constant        |
 *   |    ... | one control block of 256 bytes per ring                   |
 *   |    ... | ring 0, ring 1, ...: ring_size bytes each, page-aligned   |
 *   +--------+-----------------------------------------------------------+
 *
 *   control block of a ring, a line for each party
 *   +--------+-----------------------------------------------------------+
 *   |      0 | head and what is counted while putting       its producer |
 *   |     64 | tail and what is counted while releasing     the consumer |
 *   |    128 | producer, wake_at: who puts, and its sleep   its producer |
 *   +--------+-----------------------------------------------------------+
 *
 * Positions (head, tail, wake_at) count bytes since the lane began and never go back; a position
 * modulo ring_size is the place in the ring. The bytes from tail to head are records:
 *
 *   record, aligned to 64, never across the end of the ring
 *   +--------+-----------------------------------------------------------+
 *   |      0 | header: kind, size, number, session, release mark         |
 *   |     64 | rows of each field, 8 bytes each, padded to 64            |
 *   |    ... | each field that is there, in the schema's order, padded   |
 *   |    ... | metadata, padded to 64                                    |
 *   +--------+-----------------------------------------------------------+
 *
 * Where a record would cross the end, a padding header fills the rest of the ring; the record after
 * it becomes visible together with it.
 */
#define LK_TRAJ_RECORD 0x44434552u  /* "RECD" */
#define LK_TRAJ_PADDING 0x44444150u /* "PADD" */
#define LK_TRAJ_KEPT (UINT64_C(1) << 63)

struct lk_traj_geometry {
    uint32_t rings;
    uint32_t fields;
    uint32_t schema_version;
    uint32_t reserved_schema;
    uint64_t ring_size;
    uint64_t record_max; /* the most bytes of one record, its header not counted */
    uint64_t schema_offset;
    uint64_t control_offset;
    uint64_t data_offset;
    uint8_t reserved[8];
};

struct lk_traj_ring {
    _Atomic uint64_t head;       /* a record is there once head is beyond it */
    _Atomic uint64_t session;    /* counts the producers that this ring has had */
    _Atomic uint64_t records;    /* put into this ring; a kill may leave it one too high */
    _Atomic uint64_t bytes;      /* of those records */
    _Atomic uint64_t stalls;     /* how often a producer had to wait for room */
    _Atomic uint64_t stalled_ns; /* how long, in all */
    uint8_t reserved_producer[16];

    _Atomic uint64_t tail;     /* the bytes before it may be used again; its low half: a futex */
    _Atomic uint64_t released; /* records */
    _Atomic uint64_t spoiled;  /* 1: its content was impossible, and nobody uses it any more */
    uint8_t reserved_consumer[40];

    _Atomic uint64_t producer; /* its pid, 0: nobody, or it left. LK_TRAJ_KEPT: the ring is kept for
                                  a successor, and nobody else takes it when the producer dies */
    _Atomic uint64_t wake_at;  /* the producer sleeps until tail gets here; 0: it does not */
    uint8_t reserved_claim[112];
};

struct lk_traj_header {
    struct lk_segment_header segment;
    struct lk_traj_geometry geometry;

    _Atomic uint64_t consumer;  /* its pid, 0: it left for a successor; for people */
    _Atomic uint64_t takeovers; /* successors so far */
    _Atomic uint64_t asleep;    /* 1: the consumer sleeps, or is about to: ring the bell */
    uint8_t reserved_consumer[40];

    _Atomic uint64_t bell; /* counts the times it was rung */
    uint8_t reserved_bell[56];
    uint8_t reserved_tail[3392];
};

struct lk_traj_record_header {
    uint32_t kind; /* LK_TRAJ_RECORD or LK_TRAJ_PADDING */
    uint32_t producer_pid;
    uint64_t position; /* of this header: what is left of an earlier round does not pass for new */
    uint64_t size;     /* bytes after this header, a multiple of 64 */
    uint64_t session;
    uint64_t number; /* 1 for the session's first record */
    uint64_t timestamp_ns;
    uint64_t metadata_size;
    _Atomic uint64_t released; /* 1: the consumer is done with it, though tail is still before it */
};

static_assert(sizeof(struct lk_traj_geometry) == 64, "trajectory geometry");
static_assert(sizeof(struct lk_traj_ring) == 256, "ring control block");
static_assert(offsetof(struct lk_traj_ring, tail) == 64, "ring control block");
static_assert(offsetof(struct lk_traj_ring, producer) == 128, "ring control block");
static_assert(offsetof(struct lk_traj_ring, wake_at) == 136, "ring control block");
static_assert(sizeof(struct lk_traj_header) == LK_HEADER_SIZE, "trajectory header");
static_assert(offsetof(struct lk_traj_header, geometry) == 512, "trajectory header");
static_assert(offsetof(struct lk_traj_header, consumer) == 576, "trajectory header");
static_assert(offsetof(struct lk_traj_header, asleep) == 592, "trajectory header");
static_assert(offsetof(struct lk_traj_header, bell) == 640, "trajectory header");
static_assert(sizeof(struct lk_traj_record_header) == LK_CACHE_LINE, "record header");
static_assert(offsetof(struct lk_traj_record_header, size) == 16, "record header");
static_assert(offsetof(struct lk_traj_record_header, released) == 56, "record header");

static_assert(sizeof(struct lk_segment_header) == 512, "common header");
static_assert(offsetof(struct lk_segment_header, total_size) == 16, "common header");
static_assert(offsetof(struct lk_segment_header, owner_pid_namespace) == 32, "common header");
static_assert(offsetof(struct lk_segment_header, ready) == 64, "common header");
static_assert(offsetof(struct lk_segment_header, flags) == 68, "common header");
static_assert(offsetof(struct lk_segment_header, heartbeat_ns) == 72, "common header");
static_assert(offsetof(struct lk_segment_header, run_id_size) == 128, "common header");
static_assert(offsetof(struct lk_segment_header, run_id) == 136, "common header");

static_assert(sizeof(struct lk_frame_geometry) == 64, "frame geometry");
static_assert(sizeof(struct lk_frame_viewer) == LK_CACHE_LINE, "viewer entry");
static_assert(sizeof(struct lk_frame_header) == LK_HEADER_SIZE, "frame header");
static_assert(offsetof(struct lk_frame_header, geometry) == 512, "frame header");
static_assert(offsetof(struct lk_frame_header, head) == 576, "frame header");
static_assert(offsetof(struct lk_frame_header, wakes) == 584, "frame header");
static_assert(offsetof(struct lk_frame_header, wake_at) == 640, "frame header");
static_assert(offsetof(struct lk_frame_header, watched_until_ns) == 648, "frame header");
static_assert(offsetof(struct lk_frame_header, metrics_seq) == 704, "frame header");
static_assert(offsetof(struct lk_frame_header, viewers) == 1024, "frame header");
static_assert(sizeof(struct lk_frame_slot) == LK_CACHE_LINE, "frame slot header");

static_assert(sizeof(struct lk_step_geometry) == 512, "step geometry");
static_assert(sizeof(struct lk_step_header) == LK_HEADER_SIZE, "step header");
static_assert(offsetof(struct lk_step_header, geometry) == 512, "step header");
static_assert(offsetof(struct lk_step_header, client) == 1024, "step header");
static_assert(offsetof(struct lk_step_header, action_seq) == 1088, "step header");
static_assert(offsetof(struct lk_step_header, frame_wake_at) == 1096, "step header");
static_assert(offsetof(struct lk_step_header, requests) == 1104, "step header");
static_assert(offsetof(struct lk_step_header, frame_seq) == 1152, "step header");
static_assert(offsetof(struct lk_step_header, action_wake_at) == 1160, "step header");
static_assert(offsetof(struct lk_step_header, failure_size) == 1216, "step header");
static_assert(offsetof(struct lk_step_header, failure) == 1220, "step header");

/* --- command rings ------------------------------------------------------------------------------
 *
 * A step segment holds two: one from server to client, one from client to server. Each is this
 * header and then ring_bytes of data, in which entries lie one behind the other:
 *
 *   +----------------+----------------------+-----------------+
 *   | length (u32)   | payload, length long | zeros to 8      |  next entry
 *   +----------------+----------------------+-----------------+
 *
 * Positions count bytes from the ring's beginning and are never reset: an entry at position p lies
 * at data offset p mod ring_bytes and goes on at offset 0 when it reaches the end. An entry exists
 * once write_pos has passed it, and its bytes are free once read_pos has. Zeros are an empty ring.
 */
struct lk_ring_header {
    /* Written by the one who sends. */
    _Atomic uint64_t write_pos;     /* its low half is the futex word of a reader that sleeps */
    _Atomic uint64_t space_wake_at; /* the writer sleeps until read_pos reaches this */
    uint8_t reserved_writer[48];

    /* Written by the one who receives. */
    _Atomic uint64_t read_pos;      /* its low half is the futex word of a writer that sleeps */
    _Atomic uint64_t entry_wake_at; /* the reader sleeps until write_pos reaches this */
    uint8_t reserved_reader[48];
};

static_assert(sizeof(struct lk_ring_header) == 128, "command ring");
static_assert(offsetof(struct lk_ring_header, write_pos) == 0, "command ring");
static_assert(offsetof(struct lk_ring_header, space_wake_at) == 8, "command ring");
static_assert(offsetof(struct lk_ring_header, read_pos) == 64, "command ring");
static_assert(offsetof(struct lk_ring_header, entry_wake_at) == 72, "command ring");

/* Shared memory means that the hardware, not a lock in one process, makes these atomic. */
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "lock-free atomics");
static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "plain size atomics");

#endif
