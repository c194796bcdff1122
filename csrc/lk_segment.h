/*
 * lk_segment.h: the life of a shared-memory segment, common to all lanes.
 *
 * A lane creates in three steps, so that nobody sees half a segment: lk_segment_create reserves
 * the memory and writes the common header, the lane writes its geometry, lk_segment_make_ready
 * opens the door. Attaching copies and checks; after that no length or offset is read from shared
 * memory again, so a peer that goes mad can spoil pictures but not move an access out of bounds.
 */
#ifndef LK_SEGMENT_H
#define LK_SEGMENT_H

#include "lk_layout.h"
#include "lk_platform.h"

#include <sys/types.h>

/* How often an owner shows that it lives, at most: others poll the flags on the same cache line. */
#define LK_HEARTBEAT_NS UINT64_C(100000000)

#define LK_NAME_SIZE 160 /* lanekit-<kind>-<slug>-<hash> and a zero, with room */

/* Which file a name meant at one moment; names can be taken over by a successor. */
struct lk_segment_id {
    char name[LK_NAME_SIZE];
    dev_t device;
    ino_t inode;
};

struct lk_segment_request {
    uint32_t kind;
    uint32_t magic;
    const char *run_id;
    size_t run_id_size;
    uint64_t total_size;
    const uint32_t *allow_uid; /* NULL: only this process's user */
};

int lk_segment_create(lk_segment **out, const struct lk_segment_request *request);
void lk_segment_make_ready(lk_segment *segment);

/* Map the run's segment. *header receives the checked private copy of the common header. */
int lk_segment_attach(lk_segment **out, const struct lk_segment_request *request,
                      struct lk_segment_header *header);

/*
 * Map a segment whose owner died, to become its owner instead of replacing it. LK_OK: its name is
 * locked, so that nobody reclaims it meanwhile; the lane looks at what it found and calls
 * lk_segment_adopt_finish, or gives up with lk_segment_release. LK_E_EXISTS: the owner lives.
 * LK_E_NOT_FOUND: there is nothing that could be taken over.
 */
int lk_segment_adopt(lk_segment **out, const struct lk_segment_request *request,
                     struct lk_segment_header *header);
void lk_segment_adopt_finish(lk_segment *segment);

/* Let go of an owned segment without ending it: it is as if the owner had died. */
void lk_segment_leave(lk_segment *segment);

/* Roles of a segment (enum lk_role) beside its owner's: take one, LK_E_TAKEN while another has it;
 * give it up; ask whether somebody else has it, which needs no lock and costs a system call. */
int lk_segment_take_role(lk_segment *segment, uint32_t role);
void lk_segment_drop_role(lk_segment *segment, uint32_t role);
enum lk_liveness lk_segment_role_holder(const lk_segment *segment, uint32_t role);

/* One more reference for a caller that holds one; lk_segment_release gives it back. */
void lk_segment_retain(lk_segment *segment);

/* The mapping's first byte; valid while the caller holds a reference. */
void *lk_segment_base(const lk_segment *segment);
uint64_t lk_segment_size(const lk_segment *segment);
const struct lk_segment_id *lk_segment_identity(const lk_segment *segment);

/* Whether a peer truncated the file under us: what was read since may be zeros. */
bool lk_segment_damaged(const lk_segment *segment);

/* Set LK_FLAG_INVALIDATED. The lane wakes its own waiters. */
void lk_segment_invalidate(lk_segment *segment);
bool lk_segment_invalidated(const lk_segment *segment);

/* Remove the name if it still means this file. */
int lk_segment_unlink(const struct lk_segment_id *id);

/* From now on the signal handlers leave this segment alone: its owner has let go of it. */
void lk_segment_disown(lk_segment *segment);

/*
 * Copy of the header's first `size` bytes, read through the file, without mapping it. *fd is open
 * afterwards, whatever the answer, unless it is -1: for lk_lock_holder, and for the caller to
 * close.
 */
int lk_segment_peek(const char *name, void *out, size_t size, int *fd);

/* For the signal handlers; async-signal-safe. */
bool lk_segment_absorb_fault(void *address);
void lk_segment_abandon_owned(void);

#endif
