/* lk_wait.c: the waiting side of lk_wait.h, where the labels are explained. */
#include "lk_wait.h"

/* After spinning stopped paying, try it again now and then, as the load may have changed: soon at
 * first, for it may have been one disturbance, then after twice as many sleeps each time it did
 * not pay. On a machine that stays crowded the tries are too few to be seen among a hundred waits.
 */
static const uint32_t retry_most = 8192;
/* Two looks at the clock are a microsecond or two apart. If more than this passed, another process
 * had our core meanwhile: there are fewer cores than runnable processes, and the one that we wait
 * for may be waiting for this very core. */
static const uint64_t preempted_ns = 20000;

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

/* How long to spin now: as long as it has paid lately. When it is tried again, at least as long as
 * the last sleep took and half as long again: what comes later is not worth a core. */
static uint64_t spin_time(const struct lk_spin *spin, bool retry) {
    uint64_t try_ns = retry ? spin->slept_ns + (uint64_t)spin->slept_ns / 2 : 0;
    return try_ns > spin->budget_ns ? try_ns : spin->budget_ns;
}

static void learn(struct lk_spin *spin, bool paid, bool preempted, uint64_t took_ns) {
    if (preempted) {
        spin->budget_ns = 0;
    } else if (!paid) {
        spin->budget_ns /= 2;
    } else if (2 * took_ns > spin->budget_ns) {
        spin->budget_ns = 2 * took_ns < spin->most_ns ? (uint32_t)(2 * took_ns) : spin->most_ns;
    }
}

static void learn_when_to_retry(struct lk_spin *spin, bool paid) {
    spin->sleeps = 0;
    if (paid) {
        spin->retry_after = LK_SPIN_RETRY;
    } else if (spin->retry_after < retry_most) {
        spin->retry_after *= 2;
    }
}

static void learn_from_sleep(struct lk_spin *spin, uint64_t begin_ns) {
    uint64_t slept_ns = lk_clock_ns() - begin_ns;
    spin->slept_ns = slept_ns < spin->most_ns ? (uint32_t)slept_ns : spin->most_ns;
    spin->sleeps++;
}

/* Spin, and learn from it; returns the sequence found. */
static uint64_t spin_a_while(const _Atomic uint64_t *sequence, uint64_t seen, uint64_t begin_ns,
                             uint64_t deadline_ns, struct lk_spin *spin) {
    /* Not after a sleep that took longer than spinning ever may: this wait may be like it. */
    bool retry = spin->sleeps >= spin->retry_after && spin->slept_ns < spin->most_ns;
    uint64_t end_ns = begin_ns + spin_time(spin, retry);
    end_ns = end_ns < deadline_ns ? end_ns : deadline_ns;
    uint64_t now_ns = begin_ns;
    uint64_t found;
    bool preempted;
    do {
        uint64_t looked_ns = now_ns;
        found = spin_beyond(sequence, seen, looked_ns);
        now_ns = lk_clock_ns();
        preempted = now_ns - looked_ns > preempted_ns;
    } while (found == seen && now_ns < end_ns && !preempted);
    learn(spin, found != seen, preempted, now_ns - begin_ns);
    if (retry) {
        learn_when_to_retry(spin, found != seen && !preempted);
    }
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
        learn_from_sleep(spin, begin_ns);
    }
    /* [W1] acquire: as in spin_beyond. */
    return atomic_load_explicit(sequence, memory_order_acquire);
}
