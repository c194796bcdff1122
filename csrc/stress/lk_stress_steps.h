/*
 * lk_stress_steps.h: the protocol's steps, slowed down or broken on purpose.
 *
 * lk_stress_writer.c and lk_stress_reader.c compile the production sources a second time, with the
 * names of the steps below standing for the originals and the public functions renamed. So what is
 * stressed is the real sequence of steps, whatever it becomes, and production code has no hooks.
 *
 * Everything here acts only while lk_stress_steps.longest says so: one and the same handle can be
 * used by the untouched production functions for one frame and by the slow ones for the next.
 */
#ifndef LK_STRESS_STEPS_H
#define LK_STRESS_STEPS_H

/* The lane's public functions get other names here, also where lanekit.h declares them, so that the
 * originals can be used beside them. The build takes the list from lanekit_api.h. */
#ifdef LK_STRESS_RENAME
#include "lk_stress_names.h"
#define lk_wait_beyond slow_wait_beyond
#endif

#include "lk_frame.h"
#include "lk_platform.h"
#include "lk_seqlock.h"
#include "lk_wait.h"

#include <sched.h>

#include "lk_stress.h"

/* How the calling thread's steps are disturbed. */
struct lk_stress_steps {
    uint64_t random;
    uint32_t longest; /* spins of one delay at most; 0: no delays, no fault */
    int fault;        /* enum lk_stress_fault */
};

extern _Thread_local struct lk_stress_steps lk_stress_steps;

/* Longer than a party needs to get from one step to the next, also on another core. */
#define LK_STRESS_HOLD_NS 20000u

static inline uint64_t lk_stress_random(void) {
    uint64_t x = lk_stress_steps.random; /* xorshift64 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    lk_stress_steps.random = x;
    return x;
}

/* A delay of random length, often none. */
static inline void lk_stress_pause(void) {
    if (lk_stress_steps.longest == 0) {
        return;
    }
    uint64_t draw = lk_stress_random();
    if (draw % 2 == 0) {
        return;
    }
    for (uint64_t spins = (draw >> 8) % lk_stress_steps.longest; spins > 0; spins--) {
        lk_cpu_relax();
    }
    if ((draw >> 40) % 1024 == 0) {
        sched_yield();
    }
}

static inline bool lk_stress_broken(int fault) {
    return lk_stress_steps.longest != 0 && lk_stress_steps.fault == fault;
}

/* The delay that makes a fault show: at its worst place, and long. */
static inline void lk_stress_hold(void) {
    uint64_t end = lk_clock_ns() + LK_STRESS_HOLD_NS;
    while (lk_clock_ns() < end) {
        lk_cpu_relax();
    }
}

/* --- the reader's steps ----------------------------------------------------------------------- */

static inline uint64_t slow_seqlock_begin_read(const _Atomic uint64_t *seq) {
    lk_stress_pause();
    uint64_t word = lk_seqlock_begin_read(seq);
    lk_stress_pause();
    return word;
}

static inline void slow_copy_from_shared(void *private_bytes, const _Atomic uint64_t *shared,
                                         size_t size) {
    if (lk_stress_steps.longest == 0) {
        lk_copy_from_shared(private_bytes, shared, size);
        return;
    }
    size_t half = size / 16 * 8;
    lk_copy_from_shared(private_bytes, shared, half);
    if (lk_stress_broken(LK_STRESS_UNCHECKED_READER)) {
        lk_stress_hold();
    } else {
        lk_stress_pause();
    }
    lk_copy_from_shared((uint8_t *)private_bytes + half, shared + half / 8, size - half);
}

static inline bool slow_seqlock_unchanged(const _Atomic uint64_t *seq, uint64_t begun) {
    lk_stress_pause();
    return lk_stress_broken(LK_STRESS_UNCHECKED_READER) || lk_seqlock_unchanged(seq, begun);
}

static inline void slow_futex_wait(const _Atomic uint64_t *word, uint64_t expected,
                                   uint64_t deadline_ns) {
    lk_stress_pause();
    lk_futex_wait(word, expected, deadline_ns);
}

/* --- what the parties use of the slowed-down lane --------------------------------------------- */

int64_t lk_stress_publish_slowly(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                                 const void *metadata, size_t metadata_size,
                                 const struct lk_frame_metrics *metrics);
int64_t lk_stress_read_slowly(lk_frame_reader *reader, int choice, void *pixels, size_t pixels_size,
                              void *metadata, size_t metadata_size, struct lk_frame_info *info);
uint64_t lk_stress_wait_slowly(const _Atomic uint64_t *sequence, _Atomic uint64_t *wake_at,
                               uint64_t seen, uint64_t deadline_ns, struct lk_spin *spin,
                               enum lk_wait_strategy strategy);

#endif
