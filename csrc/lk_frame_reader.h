/*
 * lk_frame_reader.h: a fast-lane reader, as lk_frame_attach.c and lk_frame_reader.c share it.
 *
 * What each read does before and after the frame itself is inline: at small frames a call more
 * would show.
 *
 * Labels: [W1] of lk_wait.h for the head.
 */
#ifndef LK_FRAME_READER_H
#define LK_FRAME_READER_H

#include "lk_frame.h"
#include "lk_guard.h"
#include "lk_spin.h"

/* How often to look whether the run has a new segment, while its writer is gone. */
#define LK_FRAME_SUCCESSOR_CHECK_NS UINT64_C(20000000)

struct lk_frame_reader {
    struct lk_guard guard;
    lk_segment *segment;
    struct lk_frame_header *header;
    struct lk_frame_geometry geometry;
    struct lk_frame_viewer *viewer; /* NULL: the table is full, or this reader is not counted */
    uint64_t cursor;                /* the last frame this reader had */
    uint64_t peeked;                /* the frame being looked at, not yet known to be whole */
    uint32_t lead; /* how far ahead of the oldest frame in-order reading aims, see overtaken() */
    uint64_t lease_ns;
    uint64_t announced_ns;
    uint64_t owner_checked_ns;
    uint64_t successor_checked_ns;
    uint32_t allow_uid;
    bool allows_uid; /* the segment may belong to allow_uid */
    bool owner_dead;
    bool moved; /* on a new segment whose geometry the caller has not asked for yet */
    struct lk_spin spin;
    struct lk_frame_stats stats;
    size_t run_id_size;
    char run_id[];
};

/* Renew the lease, and what the writer can see of this reader. */
void lk_frame_reader_announce(lk_frame_reader *reader, uint64_t now);

/* Move to the segment that carries the run's name now: LK_E_MOVED, or LK_OK if it is still ours. */
int lk_frame_reader_follow(lk_frame_reader *reader, uint64_t now);

/* The oldest frame that the ring can still hold. */
static inline uint64_t lk_frame_reader_oldest(const lk_frame_reader *reader, uint64_t head) {
    return head > reader->geometry.capacity ? head - reader->geometry.capacity + 1 : 1;
}

static inline uint64_t lk_frame_reader_head(const lk_frame_reader *reader) {
    /* [W1] acquire: pairs with the release in lk_announce; the slot it names is complete. */
    return atomic_load_explicit(&reader->header->head, memory_order_acquire);
}

/* Begin with the oldest frame there is: what came before it does not count as skipped. */
static inline void lk_frame_reader_start_over(lk_frame_reader *reader, uint64_t head) {
    reader->cursor = head <= LK_FRAME_SEQ_MAX ? lk_frame_reader_oldest(reader, head) - 1 : 0;
}

static inline bool lk_frame_reader_orphaned(const lk_frame_reader *reader) {
    return reader->owner_dead || lk_segment_invalidated(reader->segment);
}

/* Seldom compared with the lease, so that fast readers do not fight over the line. */
static inline void lk_frame_reader_be_seen(lk_frame_reader *reader, uint64_t now) {
    if (reader->lease_ns != 0 && now - reader->announced_ns >= reader->lease_ns / 8) {
        lk_frame_reader_announce(reader, now);
    }
}

/* Begin a call that reads: be seen, and move on if a new writer has come. `now` is coarse, as all
 * the times are that a reader keeps. */
static inline int lk_frame_reader_enter(lk_frame_reader *reader, uint64_t *now) {
    int status = lk_guard_enter(&reader->guard);
    if (status != LK_OK) {
        return status;
    }
    *now = lk_clock_coarse_ns();
    lk_frame_reader_be_seen(reader, *now);
    if (lk_frame_reader_orphaned(reader)) {
        status = lk_frame_reader_follow(reader, *now);
    }
    if (reader->moved) {
        status = LK_E_MOVED; /* until the caller knows what its buffers must hold */
    }
    if (status != LK_OK) {
        lk_guard_exit(&reader->guard);
    }
    return status;
}

static inline int64_t lk_frame_reader_leave(lk_frame_reader *reader, int64_t result) {
    if (lk_segment_damaged(reader->segment)) {
        /* Whether its writer lives or not, this mapping is lost: look for the next one. */
        reader->owner_dead = true;
        result = LK_E_TRUNCATED;
    }
    lk_guard_exit(&reader->guard);
    return result;
}

#endif
