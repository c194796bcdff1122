/*
 * command_segment.h: a segment with nothing but two command rings in it, and messages that tell by
 * themselves whether they are whole. For tests of the channel without a step lane around it.
 */
#ifndef LK_TESTS_COMMAND_SEGMENT_H
#define LK_TESTS_COMMAND_SEGMENT_H

#include "check.h"
#include "lk_cmd.h"

struct command_segment {
    lk_segment *segment;
    uint64_t ring_bytes;
    struct lk_segment_id id;
};

/* Which end: a server writes the first ring and reads the second. */
enum end { SERVER, CLIENT };

static inline int never_gone(void *context) {
    (void)context;
    return 0;
}

static inline struct command_segment create_command_segment(uint64_t ring_bytes) {
    char run[64];
    struct command_segment made = {.ring_bytes = ring_bytes};
    struct lk_segment_request request = {
        .kind = LK_KIND_STEP,
        .magic = LK_MAGIC_STEP,
        .run_id = fresh_run(run),
        .run_id_size = strlen(run),
        .total_size = LK_HEADER_SIZE + 2 * lk_ring_region_size(ring_bytes),
    };
    CHECK_STATUS(LK_OK, lk_segment_create(&made.segment, &request));
    lk_segment_make_ready(made.segment);
    made.id = *lk_segment_identity(made.segment);
    return made;
}

static inline void end_command_segment(struct command_segment *made) {
    lk_segment_release(made->segment);
    CHECK_STATUS(LK_OK, lk_segment_unlink(&made->id));
}

static inline uint64_t ring_offset(const struct command_segment *made, int ring) {
    return LK_HEADER_SIZE + (uint64_t)ring * lk_ring_region_size(made->ring_bytes);
}

static inline struct lk_ring_header *ring_header(const struct command_segment *made, int ring) {
    uint8_t *base = lk_segment_base(made->segment);
    return (struct lk_ring_header *)(void *)(base + ring_offset(made, ring));
}

static inline lk_cmd *open_end(const struct command_segment *made, enum end end,
                               int (*gone)(void *), void *context) {
    struct lk_cmd_peer peer = {gone, context};
    uint64_t first = ring_offset(made, 0);
    uint64_t second = ring_offset(made, 1);
    lk_cmd *cmd;
    CHECK_STATUS(LK_OK, lk_cmd_open(&cmd, made->segment, end == SERVER ? first : second,
                                    end == SERVER ? second : first, made->ring_bytes, &peer));
    return cmd;
}

#define A_MINUTE_NS UINT64_C(60000000000)

/* Message n begins with n; its size and all further bytes follow from n. */
#define MESSAGE_MAX 400u

static inline size_t message_size(uint64_t n, size_t most) {
    uint64_t mixed = n * UINT64_C(0x9E3779B97F4A7C15);
    return sizeof n + (size_t)((mixed >> 40) % (most - sizeof n + 1));
}

static inline size_t make_message(uint8_t *message, uint64_t n, size_t most) {
    size_t size = message_size(n, most);
    paint(message, size, n);
    memcpy(message, &n, sizeof n);
    return size;
}

/* The number of a message; ends the test if it is not exactly the one with that number. */
static inline uint64_t check_message(const uint8_t *message, size_t size, size_t most) {
    uint8_t expected[MESSAGE_MAX];
    uint64_t n;
    CHECK(size >= sizeof n);
    memcpy(&n, message, sizeof n);
    CHECK(size == make_message(expected, n, most));
    CHECK(memcmp(message, expected, size) == 0);
    return n;
}

static inline void send_message(lk_cmd *cmd, uint64_t n, size_t most) {
    uint8_t message[MESSAGE_MAX];
    size_t size = make_message(message, n, most);
    CHECK_STATUS(1, lk_cmd_send(cmd, message, size, A_MINUTE_NS, LK_WAIT_HYBRID));
}

static inline uint64_t receive_message(lk_cmd *cmd, size_t most) {
    uint8_t message[MESSAGE_MAX];
    size_t size;
    CHECK_STATUS(1,
                 lk_cmd_receive(cmd, message, sizeof message, &size, A_MINUTE_NS, LK_WAIT_HYBRID));
    return check_message(message, size, most);
}

/* A small generator, so that a failure can be repeated. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
