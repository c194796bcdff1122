/* lk_stress_reader.c: the production reader and waiter once more, with their steps slowed down or
 * broken as lk_stress_steps.h says. */
#define LK_STRESS_RENAME
#include "lk_stress_steps.h"

#define lk_seqlock_begin_read slow_seqlock_begin_read
#define lk_seqlock_unchanged slow_seqlock_unchanged
#define lk_copy_from_shared slow_copy_from_shared
#define lk_futex_wait slow_futex_wait
/* NOLINTNEXTLINE(bugprone-suspicious-include): that it is compiled again is the point */
#include "lk_frame_reader.c"
/* NOLINTNEXTLINE(bugprone-suspicious-include): as above */
#include "lk_wait.c"

int64_t lk_stress_read_slowly(lk_frame_reader *reader, int choice, void *pixels, size_t pixels_size,
                              void *metadata, size_t metadata_size, struct lk_frame_info *info) {
    return lk_frame_read(reader, choice, pixels, pixels_size, metadata, metadata_size, info);
}

uint64_t lk_stress_wait_slowly(const _Atomic uint64_t *sequence, _Atomic uint64_t *wake_at,
                               uint64_t seen, uint64_t deadline_ns, struct lk_spin *spin,
                               enum lk_wait_strategy strategy) {
    return lk_wait_beyond(sequence, wake_at, seen, deadline_ns, spin, strategy);
}
