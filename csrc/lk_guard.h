/*
 * lk_guard.h: one handle, one thread at a time, one process.
 *
 * A guard turns misuse into an error: two threads inside one handle, use after close, use of a
 * handle inherited over fork(). It costs one uncontended compare-and-swap per call.
 *
 * Calls that only look at a word or two enter lightly. They are counted in a word of their own, so
 * they run beside a call that is under way, however long that one waits, and beside each other, and
 * no call waits for them. What they look at is therefore constant while the handle is open, or
 * atomic. Only closing waits for both kinds.
 *
 * Labels
 *   [G1] state: acquire on entry / release on exit, so that calls from different threads, one
 *        after the other, see each other's work on the handle
 *   [G2] visitors: release when a light call leaves / acquire by whoever closes, so that the
 *        handle's memory goes only after the light calls have looked at it
 *
 * Why relaxed is enough where a light call enters: the count and the mark that somebody closes are
 * one word, and its changes have one order. A light call that came before the mark is counted when
 * the closer looks, and is waited for with [G2]. One that came after it has found the mark, and
 * touches nothing but this word.
 */
#ifndef LK_GUARD_H
#define LK_GUARD_H

#include "lk_platform.h"

#include <stdatomic.h>
#include <time.h>

enum lk_guard_state { LK_GUARD_IDLE = 0, LK_GUARD_BUSY = 1, LK_GUARD_CLOSED = 2 };

#define LK_GUARD_CLOSING (UINT32_C(1) << 31)

struct lk_guard {
    _Atomic uint32_t state;
    _Atomic uint32_t visitors; /* light calls inside. LK_GUARD_CLOSING: let no further call in */
    uint32_t generation;
};

static inline void lk_guard_init(struct lk_guard *guard) {
    lk_fork_watch();
    atomic_init(&guard->state, LK_GUARD_IDLE);
    atomic_init(&guard->visitors, 0);
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

static inline int lk_guard_enter(struct lk_guard *guard) {
    uint32_t found;
    if (lk_guard_forked(guard)) {
        return LK_E_FORKED;
    }
    if (!lk_guard_take(guard, LK_GUARD_BUSY, &found)) {
        return found == LK_GUARD_CLOSED ? LK_E_CLOSED : LK_E_CONCURRENT;
    }
    /* relaxed: only hastens the end; the state decides it */
    if (atomic_load_explicit(&guard->visitors, memory_order_relaxed) >= LK_GUARD_CLOSING) {
        lk_guard_exit(guard);
        return LK_E_CLOSED;
    }
    return LK_OK;
}

static inline void lk_guard_exit_lightly(struct lk_guard *guard) {
    /* [G2] release: pairs with the [G2] acquire in lk_guard_close; what this call has looked at is
     * still there. */
    atomic_fetch_sub_explicit(&guard->visitors, 1, memory_order_release);
}

/* For calls that finish within nanoseconds and change nothing that others rely on. */
static inline int lk_guard_enter_lightly(struct lk_guard *guard) {
    if (lk_guard_forked(guard)) {
        return LK_E_FORKED;
    }
    /* relaxed: see the head of this file */
    if (atomic_fetch_add_explicit(&guard->visitors, 1, memory_order_relaxed) >= LK_GUARD_CLOSING) {
        lk_guard_exit_lightly(guard);
        return LK_E_CLOSED;
    }
    return LK_OK;
}

static inline void lk_guard_pause(void) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 50000};
    nanosleep(&pause, NULL);
}

/* Let calls under way in other threads end, then refuse all later ones. False: closed before. */
static inline bool lk_guard_close(struct lk_guard *guard) {
    uint32_t found;
    /* relaxed: see the head of this file */
    atomic_fetch_or_explicit(&guard->visitors, LK_GUARD_CLOSING, memory_order_relaxed);
    while (!lk_guard_take(guard, LK_GUARD_CLOSED, &found)) {
        if (found == LK_GUARD_CLOSED) {
            return false;
        }
        if (lk_guard_forked(guard)) {
            /* The thread that was inside does not exist in this process: nobody will leave. */
            atomic_store_explicit(&guard->state, LK_GUARD_CLOSED, memory_order_relaxed);
            return true;
        }
        lk_guard_pause();
    }
    /* [G2] acquire: pairs with the [G2] release in lk_guard_exit_lightly; no light call looks at
     * the handle any more. */
    while (atomic_load_explicit(&guard->visitors, memory_order_acquire) != LK_GUARD_CLOSING &&
           !lk_guard_forked(guard)) {
        lk_guard_pause();
    }
    return true;
}

#endif
