/*
 * lk_wait.h: announcing a sequence number, and waiting for it.
 *
 * Two shared words make an event: `sequence`, which its one announcer raises by one each time, and
 * `wake_at`, which sleepers raise to the value they wait for. The announcer makes a system call
 * only when wake_at says that somebody sleeps. Nobody ever lowers or clears wake_at, so a sleeper
 * that is killed costs one needless wake and nothing after it.
 *
 * The full fence that this takes makes the announcer wait until all it has written is visible,
 * which after a copy is a good part of the copy's time. So an announcer may leave it out until
 * wake_at is no longer 0, that is until somebody has slept here for the first time. It then says so
 * in a third word, `wakes`, and fences ever after. A sleeper that finds `wakes` still 0 may be
 * overlooked: it sleeps briefly and looks again.
 *
 * Labels
 *   [W1] sequence: release store by the announcer / acquire load by the waiter
 *   [W2] full fence between "raise sequence, look at wake_at" and "raise wake_at, look at sequence"
 *        Also: release store of wakes by the announcer, after its last announcement without a
 *        fence / relaxed load by the waiter before its fence, if it is to sleep for long
 */
#ifndef LK_WAIT_H
#define LK_WAIT_H

#include "lk_platform.h"
#include "lk_spin.h"

#include <stdatomic.h>
#include <stdint.h>

/* Whether a caller's number is one of enum lk_wait_strategy. */
static inline bool lk_wait_strategy_known(int strategy) {
    return strategy >= LK_WAIT_HYBRID && strategy <= LK_WAIT_BLOCK;
}

/* Raise the sequence to `value` (the previous one plus 1) and wake whoever sleeps for it. */
static inline void lk_announce(_Atomic uint64_t *sequence, const _Atomic uint64_t *wake_at,
                               uint64_t value) {
    /* [W1] release: pairs with the acquire loads of [W1] in lk_wait_beyond and in the lanes; what
     * was written before the announcement is visible to whoever has seen it. */
    atomic_store_explicit(sequence, value, memory_order_release);
    /* [W2] full fence: pairs with the [W2] fence in lk_wait_beyond. Each side stores its word,
     * fences, then loads the other's; without both fences each could miss the other's store and a
     * sleeper would not be woken. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: the fence orders it. A value above `value` belongs to a waiter that has seen this
     * announcement already, but one that has not may sleep behind it: so >=, not ==. */
    if (atomic_load_explicit(wake_at, memory_order_relaxed) >= value) {
        lk_futex_wake_all(sequence);
    }
}

/*
 * For a sequence that moves by more than 1, such as a position in bytes: wake whoever sleeps for
 * it, after its announcer has raised it from `before` with a release store of its own.
 */
static inline void lk_wake_beyond(const _Atomic uint64_t *sequence, const _Atomic uint64_t *wake_at,
                                  uint64_t before) {
    /* [W2] full fence: pairs with the [W2] fence in lk_wait_beyond; as in lk_announce. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: the fence orders it. Whoever has seen `before`, and sleeps, has raised it above. */
    if (atomic_load_explicit(wake_at, memory_order_relaxed) > before) {
        lk_futex_wake_all(sequence);
    }
}

/* The same as lk_announce while nobody has slept here yet. */
static inline void lk_announce_unheard(_Atomic uint64_t *sequence, uint64_t value) {
    /* [W1] release: as in lk_announce. */
    atomic_store_explicit(sequence, value, memory_order_release);
}

/*
 * Wait until the sequence exceeds `seen` or the deadline passes; returns the sequence found. May
 * return early (a signal, an unrelated wake): the caller decides whether to go on.
 */
uint64_t lk_wait_beyond(const _Atomic uint64_t *sequence, _Atomic uint64_t *wake_at, uint64_t seen,
                        uint64_t deadline_ns, struct lk_spin *spin, enum lk_wait_strategy strategy);

#endif
