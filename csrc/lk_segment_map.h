/*
 * lk_segment_map.h: a segment as this process has it mapped.
 *
 * For the files that make up lk_segment.h; lanes see lk_segment as an opaque handle.
 */
#ifndef LK_SEGMENT_MAP_H
#define LK_SEGMENT_MAP_H

#include "lk_segment.h"
#include "lk_segment_file.h"

/* What the signal handlers may do with an owned segment. */
enum lk_ownership { LK_OWNED_NOT = 0, LK_OWNED = 1, LK_OWNED_LETTING_GO = 2 };

struct lk_segment {
    _Atomic uint32_t references; /* 0: the pool entry is free */
    _Atomic uint32_t damaged;
    _Atomic uint32_t ownership;
    _Atomic uintptr_t base; /* 0 while the entry is being filled or emptied */
    _Atomic uint64_t size;
    int lock_fd; /* holds the creation lock until ready, else -1 */
    pid_t owner_pid;
    struct lk_segment_id id;
    char path[LK_FILE_PATH_SIZE];
};

/* Map the file behind fd, with one reference. `populate`: 0 or MAP_POPULATE. */
int lk_segment_map(lk_segment **out, int fd, const struct lk_segment_id *id, uint64_t size,
                   int populate);

/* From now on the signal handlers end this segment with the process; lk_segment_disown undoes it.
 */
void lk_segment_own(lk_segment *segment, const struct lk_process *self);

static inline struct lk_segment_header *lk_segment_header_of(const lk_segment *segment) {
    return lk_segment_base(segment);
}

#endif
