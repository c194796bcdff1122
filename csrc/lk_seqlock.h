/*
 * lk_seqlock.h: the four steps of a sequence lock, used by frame slots and by the header metrics.
 *
 * One writer, any number of readers, nobody waits. The sequence word is odd while the payload
 * changes. A reader that finds the same even value before and after its copy has a payload that
 * belongs together; any other outcome means: throw the copy away.
 *
 * Labels
 *   [Q1] payload complete: release store of the even value / acquire load before the copy
 *   [Q2] payload about to change: release fence after the odd store / acquire fence after the copy
 *
 * The payload itself moves in relaxed atomics or in assembly (lk_copy.c). Why two pairs: [Q1]
 * makes a reader that sees the even value see its payload. [Q2] makes a reader that has copied any
 * byte of the next payload see, at its second look, that the word has moved on.
 * A writer that dies in between leaves the word odd: readers refuse the slot for good.
 */
#ifndef LK_SEQLOCK_H
#define LK_SEQLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline void lk_seqlock_begin_write(_Atomic uint64_t *seq, uint64_t odd) {
    atomic_store_explicit(seq, odd, memory_order_relaxed);
    /* [Q2] release fence: pairs with the acquire fence in lk_seqlock_unchanged. Without it, bytes
     * of the new payload could be visible before the odd value, and a reader would accept a mix. */
    atomic_thread_fence(memory_order_release);
}

static inline void lk_seqlock_end_write(_Atomic uint64_t *seq, uint64_t even) {
    /* [Q1] release: pairs with the acquire in lk_seqlock_begin_read. Without it, the even value
     * could be visible before the last bytes of its payload. */
    atomic_store_explicit(seq, even, memory_order_release);
}

static inline uint64_t lk_seqlock_begin_read(const _Atomic uint64_t *seq) {
    /* [Q1] acquire: pairs with the release in lk_seqlock_end_write. Without it, the copy could
     * begin with bytes older than the value found. */
    return atomic_load_explicit(seq, memory_order_acquire);
}

static inline bool lk_seqlock_unchanged(const _Atomic uint64_t *seq, uint64_t begun) {
    /* [Q2] acquire fence: pairs with the release fence in lk_seqlock_begin_write. Without it, the
     * second look could happen before the copy ends, and miss an overwrite. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(seq, memory_order_relaxed) == begun;
}

#endif
