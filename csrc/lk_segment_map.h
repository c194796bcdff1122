/*
 * lk_segment_map.h: a segment as this process has it mapped.
 *
 * For the files that make up lk_segment.h; lanes see lk_segment as an opaque handle.
 */
#ifndef LK_SEGMENT_MAP_H
#define LK_SEGMENT_MAP_H

#include "lk_lock.h"
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
    struct lk_lock lock; /* the roles that this handle has */
    pid_t owner_pid;
    uint64_t file_size; /* when it was opened */
    struct lk_segment_id id;
    char path[LK_FILE_PATH_SIZE];
};

/* Open the file of a name, with one reference; lk_file_identify has the terms. Not mapped yet. */
int lk_segment_open(lk_segment **out, const char *name, int flags, const uint32_t *allow_uid);

/* Map the file from an open file of its own. `populate`: 0 or MAP_POPULATE. LK_E_NOT_READY when the
 * name leads to another file by now. */
int lk_segment_map(lk_segment *segment, uint64_t size, int populate);

/* From now on the signal handlers end this segment with the process; lk_segment_disown undoes it.
 */
void lk_segment_own(lk_segment *segment);

static inline struct lk_segment_header *lk_segment_header_of(const lk_segment *segment) {
    return lk_segment_base(segment);
}

#endif
