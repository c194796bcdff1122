/*
 * lk_traj_ring.h: the trajectory lane's steps between a producer, the consumer, and their sleep.
 *
 * Each producer has a ring of its own, so each ring has one side that raises head and one that
 * raises tail. What the lanes of a consumer share is its sleep: one bell for all rings. The bell is
 * rung only while `asleep` says that somebody listens, and nobody but the consumer clears that
 * word: if the producer did, one that dies before it rings would take everybody's ring with it.
 * What remains is a party that dies between raising its position and waking the other; therefore
 * all sleep is in slices, and such a death costs the other one slice.
 *
 * Labels
 *   [J1] head: release store by the producer / acquire load by the consumer
 *   [J2] tail: release store by the consumer / acquire load by the producer
 *   [J3] full fence between "raise head, look at asleep" and "set asleep, look at the heads"
 *   [J4] full fence between "raise tail, look at wake_at" and "set wake_at, look at tail"
 * Who puts into a ring is a role (lk_lock.h), which also hands over what the last one left.
 */
#ifndef LK_TRAJ_RING_H
#define LK_TRAJ_RING_H

#include "lk_layout.h"
#include "lk_platform.h"

/* --- the producer's steps --------------------------------------------------------------------- */

/* Make all that was written before `head` visible, and wake the consumer if it sleeps. */
static inline void lk_traj_ring_publish(struct lk_traj_header *header, struct lk_traj_ring *ring,
                                        uint64_t head) {
    /* [J1] release: pairs with the acquire in lk_traj_ring_head; whoever sees the head sees the
     * records before it. */
    atomic_store_explicit(&ring->head, head, memory_order_release);
    /* [J3] full fence: pairs with the [J3] fence in lk_traj_ring_sleep_for_record. Each side stores
     * its word, fences, then looks at the other's; without both fences each could miss the other's
     * store, and the consumer would sleep beside a record. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&header->asleep, memory_order_relaxed) != 0) {
        /* relaxed: a consumer that read the bell after this has its [J3] fence after ours, and
         * sees our head. One that read it before finds it changed when it is about to sleep. */
        atomic_fetch_add_explicit(&header->bell, 1, memory_order_relaxed);
        lk_futex_wake_all(&header->bell);
    }
}

static inline uint64_t lk_traj_ring_tail(const struct lk_traj_ring *ring) {
    /* [J2] acquire: pairs with the release in lk_traj_ring_free; the consumer's last look at the
     * bytes before tail comes before what we now write there. */
    return atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* Sleep until tail gets to `want`, from `seen`. May return early: look again. */
static inline void lk_traj_ring_sleep_for_room(struct lk_traj_ring *ring, uint64_t seen,
                                               uint64_t want, uint64_t deadline_ns) {
    atomic_store_explicit(&ring->wake_at, want, memory_order_relaxed);
    /* [J4] full fence: pairs with the [J4] fence in lk_traj_ring_free; see there. */
    atomic_thread_fence(memory_order_seq_cst);
    /* relaxed: the caller looks again with lk_traj_ring_tail before it writes */
    if (atomic_load_explicit(&ring->tail, memory_order_relaxed) == seen) {
        lk_futex_wait(&ring->tail, seen, deadline_ns);
    }
    atomic_store_explicit(&ring->wake_at, 0, memory_order_relaxed);
}

/* --- the consumer's steps --------------------------------------------------------------------- */

static inline uint64_t lk_traj_ring_head(const struct lk_traj_ring *ring) {
    /* [J1] acquire: pairs with the release in lk_traj_ring_publish. */
    return atomic_load_explicit(&ring->head, memory_order_acquire);
}

/* Give the bytes before `tail` back, and wake the producer if that is what it sleeps for. */
static inline void lk_traj_ring_free(struct lk_traj_ring *ring, uint64_t tail) {
    /* relaxed: nobody but the consumer stores it */
    uint64_t before = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    /* [J2] release: pairs with the acquire in lk_traj_ring_tail; our reads of those bytes are over.
     */
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
    /* [J4] full fence: pairs with the [J4] fence in lk_traj_ring_sleep_for_room. As with [J3]:
     * without both, the producer could sleep beside free room. */
    atomic_thread_fence(memory_order_seq_cst);
    /* Once for each wake_at: whoever still has it set after that is on its way. It can not go to
     * sleep for it again, since it looks at tail before. */
    uint64_t wake_at = atomic_load_explicit(&ring->wake_at, memory_order_relaxed);
    if (wake_at > before && wake_at <= tail) {
        lk_futex_wake_all(&ring->tail);
    }
}

/* Sleep until the bell rings, unless `ready` finds a head that has moved. May return early. */
static inline void lk_traj_ring_sleep_for_record(struct lk_traj_header *header,
                                                 bool (*ready)(const void *context),
                                                 const void *context, uint64_t deadline_ns) {
    /* relaxed: see lk_traj_ring_publish */
    uint64_t bell = atomic_load_explicit(&header->bell, memory_order_relaxed);
    atomic_store_explicit(&header->asleep, 1, memory_order_relaxed);
    /* [J3] full fence: pairs with the [J3] fence in lk_traj_ring_publish; see there. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!ready(context)) {
        lk_futex_wait(&header->bell, bell, deadline_ns);
    }
    atomic_store_explicit(&header->asleep, 0, memory_order_relaxed);
}

#endif
