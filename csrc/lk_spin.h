/*
 * lk_spin.h: how long a waiter spins before it sleeps.
 *
 * Spinning is quicker than a sleep and a wake while a core is free for it, and starves the very
 * process that is waited for when none is. So each waiter learns: from how long its spinning took
 * when it paid, and from being preempted while it spun. Private to one waiter: nothing is shared.
 */
#ifndef LK_SPIN_H
#define LK_SPIN_H

#include "lk_platform.h"

#include <stdbool.h>
#include <stdint.h>

/* How long this waiter spins before it sleeps; learned from whether spinning paid. */
struct lk_spin {
    uint32_t budget_ns;
    uint32_t most_ns;     /* spinning longer is waste, whatever is learned */
    uint32_t sleeps;      /* since spinning was last tried again */
    uint32_t retry_after; /* sleeps until it is tried again */
    uint32_t slept_ns;    /* how long the last wait took that ended in a sleep */
};

#define LK_SPIN_RETRY 8u

/* A sleep and a wake cost about 50 us on an idle virtual core: for an event that may come at any
 * time, spinning longer than that costs more than it can save. */
#define LK_SPIN_START \
    ((struct lk_spin){.budget_ns = 20000, .most_ns = 50000, .retry_after = LK_SPIN_RETRY})

/* After spinning stopped paying, try it again now and then, as the load may have changed: soon at
 * first, for it may have been one disturbance, then after twice as many sleeps each time it did
 * not pay. On a machine that stays crowded the tries are too few to be seen among a hundred waits.
 */
#define LK_SPIN_RETRY_MOST 8192u
/* Two looks at the clock are a microsecond or two apart. If more than this passed, another process
 * had our core meanwhile: there are fewer cores than runnable processes, and the one that we wait
 * for may be waiting for this very core. */
#define LK_SPIN_PREEMPTED_NS 20000u

/* One wait's spinning. lk_wait_beyond does this by itself; a lane that waits for more than one word
 * looks at its words in bursts of a microsecond, asks lk_spin_on after each, and says how it ended.
 */
struct lk_spinning {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t looked_ns;
    bool retry;
    bool preempted;
};

/* How long to spin now: as long as it has paid lately. When it is tried again, at least as long as
 * the last sleep took and half as long again: what comes later is not worth a core. */
static inline uint64_t lk_spin_time(const struct lk_spin *spin, bool retry) {
    uint64_t try_ns = retry ? spin->slept_ns + (uint64_t)spin->slept_ns / 2 : 0;
    return try_ns > spin->budget_ns ? try_ns : spin->budget_ns;
}

static inline struct lk_spinning lk_spin_begin(struct lk_spin *spin, uint64_t begin_ns,
                                               uint64_t deadline_ns) {
    struct lk_spinning spinning = {.begin_ns = begin_ns};
    /* Not after a sleep that took longer than spinning ever may: this wait may be like it. */
    spinning.retry = spin->sleeps >= spin->retry_after && spin->slept_ns < spin->most_ns;
    uint64_t end_ns = spinning.begin_ns + lk_spin_time(spin, spinning.retry);
    spinning.end_ns = end_ns < deadline_ns ? end_ns : deadline_ns;
    spinning.looked_ns = spinning.begin_ns;
    return spinning;
}

static inline bool lk_spin_on(struct lk_spinning *spinning) {
    uint64_t now_ns = lk_clock_ns();
    spinning->preempted = now_ns - spinning->looked_ns > LK_SPIN_PREEMPTED_NS;
    spinning->looked_ns = now_ns;
    return now_ns < spinning->end_ns && !spinning->preempted;
}

static inline void lk_spin_learn(struct lk_spin *spin, bool paid, bool preempted,
                                 uint64_t took_ns) {
    if (preempted) {
        spin->budget_ns = 0;
    } else if (!paid) {
        spin->budget_ns /= 2;
    } else if (2 * took_ns > spin->budget_ns) {
        spin->budget_ns = 2 * took_ns < spin->most_ns ? (uint32_t)(2 * took_ns) : spin->most_ns;
    }
}

static inline void lk_spin_learn_when_to_retry(struct lk_spin *spin, bool paid) {
    spin->sleeps = 0;
    if (paid) {
        spin->retry_after = LK_SPIN_RETRY;
    } else if (spin->retry_after < LK_SPIN_RETRY_MOST) {
        spin->retry_after *= 2;
    }
}

static inline void lk_spin_end(struct lk_spin *spin, const struct lk_spinning *spinning,
                               bool paid) {
    lk_spin_learn(spin, paid, spinning->preempted, spinning->looked_ns - spinning->begin_ns);
    if (spinning->retry) {
        lk_spin_learn_when_to_retry(spin, paid && !spinning->preempted);
    }
}

/* The wait went on with a sleep, which has ended. */
static inline void lk_spin_slept(struct lk_spin *spin, uint64_t begin_ns) {
    uint64_t slept_ns = lk_clock_ns() - begin_ns;
    spin->slept_ns = slept_ns < spin->most_ns ? (uint32_t)slept_ns : spin->most_ns;
    spin->sleeps++;
}

#endif
