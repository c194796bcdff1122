/* lk_wait.c: the waiting side of lk_wait.h, where the labels are explained. */
#include "lk_wait.h"

/* The sequence found: beyond `seen`, or not when `until_ns` came first. */
static uint64_t spin_beyond(const _Atomic uint64_t *sequence, uint64_t seen, uint64_t until_ns) {
    for (;;) {
        for (int i = 0; i < 16; i++) {
            /* [W1] acquire: pairs with the release in lk_announce; the caller may read what was
             * written before the announcement. */
            uint64_t now = atomic_load_explicit(sequence, memory_order_acquire);
            if (now != seen) {
                return now;
            }
            lk_cpu_relax();
        }
        if (lk_clock_ns() >= until_ns) {
            return seen;
        }
    }
}

/* Spin, and learn from it; returns the sequence found. */
static uint64_t spin_a_while(const _Atomic uint64_t *sequence, uint64_t seen, uint64_t begin_ns,
                             uint64_t deadline_ns, struct lk_spin *spin) {
    struct lk_spinning spinning = lk_spin_begin(spin, begin_ns, deadline_ns);
    uint64_t found;
    bool on;
    do {
        found = spin_beyond(sequence, seen, 0); /* one burst */
        on = lk_spin_on(&spinning);
    } while (found == seen && on);
    lk_spin_end(spin, &spinning, found != seen);
    return found;
}

/* Raise wake_at to at least `value`; never lower what another sleeper needs. */
static void raise_wake_at(_Atomic uint64_t *wake_at, uint64_t value) {
    uint64_t current = atomic_load_explicit(wake_at, memory_order_relaxed);
    while (current < value) {
        /* relaxed: the [W2] fence that follows orders it, whether we or another sleeper stored */
        if (atomic_compare_exchange_weak_explicit(wake_at, &current, value, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return;
        }
    }
}

uint64_t lk_wait_beyond(const _Atomic uint64_t *sequence, _Atomic uint64_t *wake_at, uint64_t seen,
                        uint64_t deadline_ns, struct lk_spin *spin,
                        enum lk_wait_strategy strategy) {
    if (strategy == LK_WAIT_SPIN) {
        return spin_beyond(sequence, seen, deadline_ns);
    }
    uint64_t begin_ns = 0;
    if (strategy == LK_WAIT_HYBRID) {
        begin_ns = lk_clock_ns();
        uint64_t now = spin_a_while(sequence, seen, begin_ns, deadline_ns, spin);
        if (now != seen || lk_clock_ns() >= deadline_ns) {
            return now;
        }
    }
    raise_wake_at(wake_at, seen + 1);
    /* [W2] full fence: pairs with the [W2] fence in lk_announce; see there. */
    atomic_thread_fence(memory_order_seq_cst);
    /* [W1] acquire: as in spin_beyond. If it still finds `seen`, the announcer has yet to pass its
     * fence and will find wake_at raised; the kernel compares once more before it sleeps. */
    uint64_t now = atomic_load_explicit(sequence, memory_order_acquire);
    if (now != seen) {
        return now;
    }
    lk_futex_wait(sequence, seen, deadline_ns);
    if (strategy == LK_WAIT_HYBRID) {
        lk_spin_slept(spin, begin_ns);
    }
    /* [W1] acquire: as in spin_beyond. */
    return atomic_load_explicit(sequence, memory_order_acquire);
}
