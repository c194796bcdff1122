/*
 * lk_guard.h: one handle, one thread at a time, one process.
 *
 * A guard turns misuse into an error: two threads inside one handle, use after close, use of a
 * handle inherited over fork(). It costs one uncontended compare-and-swap per call. Calls that only
 * look at a word or two enter lightly: they wait for each other and for a call under way, and a
 * call that meets them waits for them, so that asking from another thread disturbs nobody.
 *
 * Labels
 *   [G1] state: acquire on entry / release on exit, so that calls from different threads, one
 *        after the other, see each other's work on the handle
 */
#ifndef LK_GUARD_H
#define LK_GUARD_H

#include "lk_platform.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum lk_guard_state {
    LK_GUARD_IDLE = 0,
    LK_GUARD_BUSY = 1,
    LK_GUARD_CLOSED = 2,
    LK_GUARD_LIGHT = 3
};

struct lk_guard {
    _Atomic uint32_t state;
    _Atomic uint32_t closing; /* somebody waits to close: let no further call in */
    uint32_t generation;
};

static inline void lk_guard_init(struct lk_guard *guard) {
    lk_fork_watch();
    atomic_init(&guard->state, LK_GUARD_IDLE);
    atomic_init(&guard->closing, 0);
    guard->generation = lk_fork_generation();
}

static inline bool lk_guard_forked(const struct lk_guard *guard) {
    return guard->generation != lk_fork_generation();
}

/* Take the guard if it is idle; *found is the state it was in. */
static inline bool lk_guard_take(struct lk_guard *guard, uint32_t state, uint32_t *found) {
    *found = LK_GUARD_IDLE;
    /* [G1] acquire: pairs with the [G1] release in lk_guard_exit of the call before this one; when
     * the handle is being closed, its memory may go only after that call is really done. */
    return atomic_compare_exchange_strong_explicit(&guard->state, found, state,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void lk_guard_exit(struct lk_guard *guard) {
    /* [G1] release: pairs with the [G1] acquire in lk_guard_take. */
    atomic_store_explicit(&guard->state, LK_GUARD_IDLE, memory_order_release);
}

static inline int lk_guard_enter_as(struct lk_guard *guard, uint32_t state) {
    uint32_t found;
    if (lk_guard_forked(guard)) {
        return LK_E_FORKED;
    }
    while (!lk_guard_take(guard, state, &found)) {
        if (found == LK_GUARD_CLOSED) {
            return LK_E_CLOSED;
        }
        if (found == LK_GUARD_BUSY && state == LK_GUARD_BUSY) {
            return LK_E_CONCURRENT;
        }
        sched_yield(); /* one of the two is light, and the other will not stay for long */
    }
    /* relaxed: only hastens the end; the state decides it */
    if (atomic_load_explicit(&guard->closing, memory_order_relaxed) != 0) {
        lk_guard_exit(guard);
        return LK_E_CLOSED;
    }
    return LK_OK;
}

static inline int lk_guard_enter(struct lk_guard *guard) {
    return lk_guard_enter_as(guard, LK_GUARD_BUSY);
}

/* For calls that finish within nanoseconds and change nothing that others rely on. */
static inline int lk_guard_enter_lightly(struct lk_guard *guard) {
    return lk_guard_enter_as(guard, LK_GUARD_LIGHT);
}

/* Let a call under way in another thread end, then refuse all later ones. False: closed before. */
static inline bool lk_guard_close(struct lk_guard *guard) {
    uint32_t found;
    atomic_store_explicit(&guard->closing, 1, memory_order_relaxed);
    while (!lk_guard_take(guard, LK_GUARD_CLOSED, &found)) {
        if (found == LK_GUARD_CLOSED) {
            return false;
        }
        if (lk_guard_forked(guard)) {
            /* The thread that was inside does not exist in this process: nobody will leave. */
            atomic_store_explicit(&guard->state, LK_GUARD_CLOSED, memory_order_relaxed);
            return true;
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 50000};
        nanosleep(&pause, NULL);
    }
    return true;
}

#endif
