/*
 * lk_stress_writer.c: the production writer once more, with its steps slowed down or broken.
 *
 * Each fault is what the accident it stands for would look like to another core. Delays sit where
 * they widen the window, so that finding a fault is certain and not luck.
 */
#define LK_STRESS_RENAME
#include "lk_stress_steps.h"

/* The writer's own steps need to know where they are. */
static _Thread_local struct {
    struct lk_frame_header *header;
    struct lk_frame_slot *slot;
    void (*copy)(_Atomic uint64_t *shared, const void *private_bytes, size_t size);
} at;

static void slow_begin_write(_Atomic uint64_t *seq, uint64_t odd) {
    bool is_slot = seq != &at.header->metrics_seq;
    lk_stress_pause();
    if (!lk_stress_broken(LK_STRESS_NO_ODD)) {
        lk_seqlock_begin_write(seq, odd);
    }
    if (is_slot) {
        at.slot = (struct lk_frame_slot *)(void *)seq; /* its first field */
        if (lk_stress_broken(LK_STRESS_EARLY_HEAD)) {
            lk_announce(&at.header->head, &at.header->wake_at, (odd + 1) / 2);
            for (int i = 0; i < 5; i++) { /* a reader tries many times before it complains */
                lk_stress_hold();
            }
        }
    }
    lk_stress_pause();
}

static void slow_copy_to_shared(_Atomic uint64_t *shared, const void *private_bytes, size_t size) {
    size_t half = size / 32 * 16; /* where the streaming copy may begin, too */
    at.copy(shared, private_bytes, half);
    if (lk_stress_broken(LK_STRESS_RELAXED_COMMIT)) {
        uint64_t odd = atomic_load_explicit(&at.slot->seq, memory_order_relaxed);
        lk_seqlock_end_write(&at.slot->seq, odd + 1);
        lk_stress_hold();
    } else if (lk_stress_broken(LK_STRESS_NO_ODD)) {
        lk_stress_hold();
    } else {
        lk_stress_pause();
    }
    at.copy(shared + half / 8, (const uint8_t *)private_bytes + half, size - half);
    lk_stress_pause();
}

static void slow_end_write(_Atomic uint64_t *seq, uint64_t even) {
    lk_stress_pause();
    lk_seqlock_end_write(seq, even);
    lk_stress_pause();
}

static void after_announcing(void) {
    lk_stress_pause();
    if (lk_stress_broken(LK_STRESS_TORN)) {
        atomic_fetch_xor_explicit(&at.slot->pixels[0], UINT64_MAX, memory_order_relaxed);
        lk_stress_hold();
    }
}

static void slow_announce_unheard(_Atomic uint64_t *sequence, uint64_t value) {
    lk_announce_unheard(sequence, value);
    after_announcing();
}

static void slow_announce(_Atomic uint64_t *sequence, const _Atomic uint64_t *wake_at,
                          uint64_t value) {
    if (lk_stress_broken(LK_STRESS_LOST_WAKE)) {
        uint64_t wake_early = atomic_load_explicit(wake_at, memory_order_relaxed);
        lk_stress_hold();
        /* [X1] release: pairs with [X1] and [W1] of the readers, like lk_announce, which this
         * replaces. What is broken is [W2]: the look at wake_at happens before the store, as it
         * may where the fence is missing. */
        atomic_store_explicit(sequence, value, memory_order_release);
        if (wake_early >= value) {
            lk_futex_wake_all(sequence);
        }
        return;
    }
    lk_announce(sequence, wake_at, value);
    after_announcing();
}

#define lk_seqlock_begin_write slow_begin_write
#define lk_seqlock_end_write slow_end_write
#define lk_announce slow_announce
#define lk_announce_unheard slow_announce_unheard
/* NOLINTNEXTLINE(bugprone-suspicious-include): that it is compiled again is the point */
#include "lk_frame_writer.c"

int64_t lk_stress_publish_slowly(lk_frame_writer *writer, const void *pixels, size_t pixels_size,
                                 const void *metadata, size_t metadata_size,
                                 const struct lk_frame_metrics *metrics) {
    at.header = writer->header;
    at.copy = writer->copy_pixels;
    writer->copy_pixels = slow_copy_to_shared;
    int64_t seq = publish(writer, pixels, pixels_size, metadata, metadata_size, metrics);
    writer->copy_pixels = at.copy;
    return seq;
}
