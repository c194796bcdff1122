/*
 * lk_ring.h: one byte ring of the command lane: entries of any size, one writer, one reader.
 *
 * Each end keeps its own position in private memory and takes the other's from shared memory anew
 * each time, checked: whatever a broken peer stores there, no access leaves the ring and no call
 * runs on for ever. The caller sees to it that there is one writer and one reader.
 */
#ifndef LK_RING_H
#define LK_RING_H

#include "lk_layout.h"
#include "lk_wait.h"

#include <stddef.h>
#include <stdint.h>

#define LK_RING_BYTES_MIN 64u
#define LK_RING_BYTES_MAX (UINT32_C(1) << 30)

/* LK_OK if a ring can have so many bytes of data: a multiple of 64 within the limits. */
int lk_ring_check_size(uint64_t ring_bytes);

/* What a ring takes in the segment, its header included. */
static inline uint64_t lk_ring_region_size(uint64_t ring_bytes) {
    return sizeof(struct lk_ring_header) + ring_bytes;
}

/* The largest payload: it and its length fill the ring. */
static inline uint64_t lk_ring_limit(uint64_t ring_bytes) {
    return ring_bytes - sizeof(uint32_t);
}

struct lk_ring_end {
    struct lk_ring_header *header;
    uint8_t *data;
    uint64_t ring_bytes;
    uint64_t position; /* this end's own; the shared word follows it */
    uint64_t others;   /* the other end's, when this end last looked */
    struct lk_spin spin;
};

/*
 * Take an end of the ring at `region`, which is 64-byte aligned and lk_ring_region_size long: a new
 * ring's, or that of a process which has gone. LK_E_CORRUPT when the positions can not be.
 */
int lk_ring_open_writer(struct lk_ring_end *writer, void *region, uint64_t ring_bytes);
int lk_ring_open_reader(struct lk_ring_end *reader, void *region, uint64_t ring_bytes);

/* Append one entry: 1, 0 when it does not fit now, LK_E_TOO_LARGE when it never will. */
int lk_ring_write(struct lk_ring_end *writer, const void *payload, size_t size);

/* The size of the next entry: 1, or 0 when there is none. */
int lk_ring_peek(struct lk_ring_end *reader, size_t *size);

/* Take the next entry: 1, 0 when there is none, LK_E_SIZE when `room` is too small for *size. */
int lk_ring_read(struct lk_ring_end *reader, void *payload, size_t room, size_t *size);

/* Wait until the other end has moved since this one looked last, or the deadline; may return early.
 */
void lk_ring_wait_for_space(struct lk_ring_end *writer, uint64_t deadline_ns,
                            enum lk_wait_strategy strategy);
void lk_ring_wait_for_entry(struct lk_ring_end *reader, uint64_t deadline_ns,
                            enum lk_wait_strategy strategy);

/* Let a peer that sleeps at this ring look up: this end is about to leave. */
void lk_ring_wake_peers(const struct lk_ring_end *end);

#endif
