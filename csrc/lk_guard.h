/*
 * lk_guard.h: one handle, one thread at a time, one process.
 *
 * A guard turns misuse into an error: two threads inside one handle, use after close, use of a
 * handle inherited over fork(). It costs one uncontended compare-and-swap per call.
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

enum lk_guard_state { LK_GUARD_IDLE = 0, LK_GUARD_BUSY = 1, LK_GUARD_CLOSED = 2 };

struct lk_guard {
    _Atomic uint32_t state;
    uint32_t generation;
};

static inline void lk_guard_init(struct lk_guard *guard) {
    atomic_init(&guard->state, LK_GUARD_IDLE);
    guard->generation = lk_fork_generation();
}

static inline bool lk_guard_forked(const struct lk_guard *guard) {
    return guard->generation != lk_fork_generation();
}

static inline int lk_guard_enter(struct lk_guard *guard) {
    if (lk_guard_forked(guard)) {
        return LK_E_FORKED;
    }
    uint32_t found = LK_GUARD_IDLE;
    /* [G1] acquire: pairs with the [G1] release in lk_guard_exit of the call before this one. */
    if (!atomic_compare_exchange_strong_explicit(&guard->state, &found, LK_GUARD_BUSY,
                                                 memory_order_acquire, memory_order_relaxed)) {
        return found == LK_GUARD_CLOSED ? LK_E_CLOSED : LK_E_CONCURRENT;
    }
    return LK_OK;
}

static inline void lk_guard_exit(struct lk_guard *guard) {
    /* [G1] release: pairs with the [G1] acquire in lk_guard_enter and lk_guard_close. */
    atomic_store_explicit(&guard->state, LK_GUARD_IDLE, memory_order_release);
}

/* Let a call under way in another thread end, then refuse all later ones. False: closed before. */
static inline bool lk_guard_close(struct lk_guard *guard) {
    for (;;) {
        uint32_t found = LK_GUARD_IDLE;
        /* [G1] acquire: pairs with the [G1] release in lk_guard_exit; the mapping may go only
         * after the last call is really done with it. */
        if (atomic_compare_exchange_strong_explicit(&guard->state, &found, LK_GUARD_CLOSED,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        if (found == LK_GUARD_CLOSED) {
            return false;
        }
        if (lk_guard_forked(guard)) {
            /* The thread that was inside does not exist in this process: nobody will leave. */
            atomic_store_explicit(&guard->state, LK_GUARD_CLOSED, memory_order_relaxed);
            return true;
        }
        sched_yield();
    }
}

#endif
