/*
 * lk_frame.h: what the fast lane's writer and reader share: geometry and slots.
 *
 * Geometry is a private, checked copy. Every address in the segment is computed from it.
 */
#ifndef LK_FRAME_H
#define LK_FRAME_H

#include "lk_layout.h"
#include "lk_segment.h"

/* No honest reader asks for longer; a wild value in shared memory must not mean "for ever". */
#define LK_LEASE_MAX_NS (UINT64_C(3600) * 1000000000u)

/* A million frames a second would need 140,000 years; above it, doubling a number could wrap. */
#define LK_FRAME_SEQ_MAX (UINT64_C(1) << 62)

/* Fill the derived sizes of a geometry, overflow-safe. LK_E_BAD_GEOMETRY when impossible. */
int lk_frame_plan(const struct lk_frame_config *config, struct lk_frame_geometry *out,
                  uint64_t *total_size);

/* Judge a geometry found in a segment of that size: it must be exactly what lk_frame_plan says. */
int lk_frame_check(const struct lk_frame_geometry *found, uint64_t total_size);

static inline struct lk_frame_config lk_frame_config_of(const struct lk_frame_geometry *geometry) {
    return (struct lk_frame_config){
        .width = geometry->width,
        .height = geometry->height,
        .channels = geometry->channels,
        .pixel_format = geometry->pixel_format,
        .capacity = geometry->capacity,
        .metadata_size = geometry->metadata_size,
    };
}

/* Frame numbers start at 1. */
static inline uint32_t lk_frame_slot_index(const struct lk_frame_geometry *geometry, uint64_t seq) {
    return (uint32_t)((seq - 1) % geometry->capacity);
}

static inline struct lk_frame_slot *lk_frame_slot_at(void *base,
                                                     const struct lk_frame_geometry *geometry,
                                                     uint32_t index) {
    uint8_t *slots = (uint8_t *)base + geometry->slots_offset;
    return (struct lk_frame_slot *)(void *)(slots + index * geometry->slot_stride);
}

static inline _Atomic uint64_t *lk_frame_slot_metadata(struct lk_frame_slot *slot,
                                                       const struct lk_frame_geometry *geometry) {
    return (_Atomic uint64_t *)(void *)((uint8_t *)slot + geometry->metadata_offset);
}

/* Words that belong together only if the slot's sequence word says so. */
static inline struct lk_frame_metrics lk_frame_slot_metrics(const struct lk_frame_slot *slot) {
    return (struct lk_frame_metrics){
        .last_reward =
            lk_bits_double(atomic_load_explicit(&slot->last_reward, memory_order_relaxed)),
        .rolling_return =
            lk_bits_double(atomic_load_explicit(&slot->rolling_return, memory_order_relaxed)),
        .step_rate_hz =
            lk_bits_double(atomic_load_explicit(&slot->step_rate_hz, memory_order_relaxed)),
    };
}

/* The values of a slot's sequence word. */
static inline uint64_t lk_frame_word_writing(uint64_t seq) {
    return 2 * seq - 1;
}

static inline uint64_t lk_frame_word_complete(uint64_t seq) {
    return 2 * seq;
}

/*
 * Whether a correct writer can have left `word` in the slot of frame `seq`, for a reader that
 *   1. has seen a head >= seq [W1], and seq is among the last `capacity` frames of that head,
 *   2. then, however much later, has found `word` in the slot [Q1],
 *   3. then, however much later, has found `head`.
 *
 * The writer's stores for frame n are, in this order: writing(n), a release fence [Q2], the
 * payload, complete(n) [Q1], head = n [W1]. So:
 *   - The words of one slot only grow, and belong to frames that are `capacity` apart. At 1 the
 *     slot's word was complete(seq) already; at 2 it is that one or a later one of the same slot.
 *     Which of them, the time between 1 and 2 decides: there is no bound from `seq` upwards.
 *   - complete(n) is a release store after head = n - 1, so whoever has seen it finds at least that
 *     head at 3. It need not be n: the writer may be about to announce it, and with one slot that
 *     is what a reader of the newest frame meets.
 *   - writing(n) is a relaxed store after head = n - 1, and a machine may show it before that head.
 *     But it comes after frame n - 1's fence, and so after head = n - 2: that head at least is
 *     found at 3.
 * No other word can be there. A writer that died, or that abandoned what it had reserved, leaves
 * one of these.
 */
static inline bool lk_frame_word_possible(const struct lk_frame_geometry *geometry, uint64_t seq,
                                          uint64_t word, uint64_t head) {
    uint64_t frame = word / 2 + word % 2;
    uint64_t ahead = word % 2 == 0 ? 1 : 2;
    return word >= lk_frame_word_complete(seq) && (frame - seq) % geometry->capacity == 0 &&
           head <= LK_FRAME_SEQ_MAX && frame <= head + ahead;
}

#endif
