/*
 * lk_segment.c: create, attach, reclaim, take over.
 *
 * Labels
 *   [S1] ready: release store by the creator / acquire load by whoever attaches
 *   [S2] flags: release by whoever invalidates / acquire by whoever acts on it; both steps are in
 *        lk_segment_map.c
 *
 * Who writes: the creator, all of the header before [S1]; flags afterwards also by a reclaimer.
 * Who dies: whether the owner lives is told by LK_ROLE_OWNER, which it holds from before [S1] until
 * it leaves or dies (lk_lock.h). A creator before [S1] has LK_ROLE_NAME, too: whoever gets that and
 * finds no ready word may remove the file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment.h"

#include "lk_segment_file.h"
#include "lk_segment_header.h"
#include "lk_segment_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_POPULATE
#define MAP_POPULATE 0
#endif

#define NAME_PREFIX "lanekit-"

static int name_of(const struct lk_segment_request *request, char name[LK_NAME_SIZE]) {
    return lk_segment_name(request->kind, request->run_id, request->run_id_size, name,
                           LK_NAME_SIZE);
}

/* Before another turn at a name that somebody else is at work on. */
static void wait_for_others(void) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 2000000};
    nanosleep(&pause, NULL);
}

static void release_keeping_errno(lk_segment *segment) {
    int saved = errno;
    lk_segment_release(segment);
    errno = saved;
}

/* --- create ----------------------------------------------------------------------------------- */

/* Fill the new, empty file. On success the segment has the roles of its name and its owner. */
static int build(lk_segment *segment, const struct lk_segment_request *request) {
    /* Between creating the file and locking it a reclaimer may have taken it for an orphan. */
    int status = lk_lock_take(&segment->lock, LK_ROLE_NAME);
    if (status == LK_E_TAKEN || (status == LK_OK && !lk_file_is_named(&segment->id))) {
        return LK_E_NOT_READY;
    }
    if (status == LK_OK) {
        status = lk_lock_take(&segment->lock, LK_ROLE_OWNER);
    }
    if (status == LK_OK) {
        int error;
        do {
            error = posix_fallocate(segment->lock.fd, 0, (off_t)request->total_size);
        } while (error == EINTR);
        status = error == 0 ? LK_OK : lk_file_status(error);
    }
    if (status == LK_OK) {
        status = lk_segment_map(segment, request->total_size, MAP_POPULATE);
    }
    if (status != LK_OK) {
        int saved = errno;
        if (lk_file_is_named(&segment->id)) { /* somebody may have removed it by hand */
            lk_file_unlink(segment->id.name);
        }
        errno = saved;
        return status;
    }
    lk_header_write(lk_segment_header_of(segment), request);
    lk_segment_own(segment);
    return LK_OK;
}

int lk_segment_create(lk_segment **out, const struct lk_segment_request *request) {
    char name[LK_NAME_SIZE];
    int status = name_of(request, name);
    bool busy = false;
    /* Each turn ends in success, a final answer, or somebody else's progress. */
    for (int turn = 0; status == LK_OK && turn < 100; turn++) {
        status = lk_segment_open(out, name, O_RDWR | O_CREAT | O_EXCL, NULL);
        if (status == LK_OK) {
            status = build(*out, request);
            if (status == LK_OK) {
                return LK_OK;
            }
            release_keeping_errno(*out);
        } else if (status == LK_E_SYSTEM && errno == EEXIST) {
            status = lk_segment_reclaim(name, 0);
        } else if (status == LK_E_NOT_FOUND) {
            errno = ENOENT;
            status = LK_E_SYSTEM; /* there is no shared memory at all */
        }
        busy = status == LK_E_NOT_READY;
        if (busy) {
            wait_for_others();
            status = LK_OK;
        }
    }
    if (status == LK_OK) {
        status = busy ? LK_E_NOT_READY : LK_E_EXISTS;
    }
    return status;
}

void lk_segment_make_ready(lk_segment *segment) {
    /* [S1] release: pairs with the acquire in attach_opened; whoever sees the word sees a complete
     * header. */
    atomic_store_explicit(&lk_segment_header_of(segment)->ready, LK_READY, memory_order_release);
    lk_lock_drop(&segment->lock, LK_ROLE_NAME);
}

/* --- attach ----------------------------------------------------------------------------------- */

static int attach_opened(lk_segment *segment, const struct lk_segment_request *request,
                         struct lk_segment_header *header) {
    uint64_t size = segment->file_size;
    if (size < LK_HEADER_SIZE) {
        return size == 0 ? LK_E_NOT_READY : LK_E_TRUNCATED;
    }
    /* Not populated: pages of a huge file that a broken creator left sparse cost nothing. */
    int status = lk_segment_map(segment, size, 0);
    if (status != LK_OK) {
        return status;
    }
    struct lk_segment_header *shared = lk_segment_header_of(segment);
    /* [S1] acquire: pairs with the release in lk_segment_make_ready; the header is complete. */
    uint32_t ready = atomic_load_explicit(&shared->ready, memory_order_acquire);
    /* Copied once, judged as copied: what a peer changes later cannot get past the checks. Not
     * before it is ready: its creator may be writing it. */
    if (ready != 0) {
        memcpy(header, shared, sizeof *header);
    }
    status = lk_header_check(header, ready, size);
    if (status == LK_OK && header->magic != request->magic) {
        status = LK_E_WRONG_KIND;
    }
    if (status == LK_OK && !lk_header_same_run(header, request)) {
        status = LK_E_NOT_FOUND; /* another id with the same hash: this run has no segment */
    }
    return status == LK_OK && lk_segment_damaged(segment) ? LK_E_TRUNCATED : status;
}

int lk_segment_attach(lk_segment **out, const struct lk_segment_request *request,
                      struct lk_segment_header *header) {
    char name[LK_NAME_SIZE];
    int status = name_of(request, name);
    if (status == LK_OK) {
        status = lk_segment_open(out, name, O_RDWR, request->allow_uid);
    }
    if (status != LK_OK) {
        return status;
    }
    status = attach_opened(*out, request, header);
    if (status != LK_OK) {
        release_keeping_errno(*out);
        *out = NULL;
    }
    return status;
}

/* --- reclaim ---------------------------------------------------------------------------------- */

/* Whether the file, whose name we have locked, is nobody's any more. */
static int judge_orphan(const lk_segment *segment, bool force) {
    struct lk_segment_header header;
    uint64_t file_size;
    int status = lk_header_read(segment->lock.fd, &header, sizeof header, &file_size);
    uint32_t ready = atomic_load_explicit(&header.ready, memory_order_relaxed);
    if (status == LK_E_NOT_READY || (status == LK_OK && ready == 0)) {
        return LK_OK; /* its creator died half-way: alive, it would have the name locked */
    }
    if (status == LK_E_TRUNCATED) {
        return LK_OK; /* too short for a header: nobody can use it any more */
    }
    if (status != LK_OK) {
        return status;
    }
    if (ready != LK_READY || lk_header_kind(header.magic) == LK_KIND_UNKNOWN) {
        return force ? LK_OK : LK_E_WRONG_KIND; /* not ours: its owner would hold no lock */
    }
    uint32_t flags = atomic_load_explicit(&header.flags, memory_order_relaxed);
    if (force || (flags & LK_FLAG_INVALIDATED) != 0) {
        return LK_OK;
    }
    /* What cannot be judged is left alone. */
    return lk_segment_role_holder(segment, LK_ROLE_OWNER) == LK_DEAD ? LK_OK : LK_E_EXISTS;
}

/* Tell attached readers that this segment will see no more frames. */
static int invalidate_file(lk_segment *segment) {
    if (segment->file_size < LK_HEADER_SIZE) {
        return LK_OK; /* nobody can be attached */
    }
    int status = lk_segment_map(segment, LK_HEADER_SIZE, 0);
    if (status == LK_OK) {
        lk_segment_invalidate(segment);
    }
    return status;
}

static int reclaim(const char *name, bool force, bool remove) {
    lk_segment *segment;
    if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0) {
        return LK_E_INVALID; /* another program's shared memory */
    }
    int status = lk_segment_open(&segment, name, O_RDWR, NULL);
    if (status == LK_E_NOT_FOUND) {
        return LK_OK;
    }
    if (status == LK_E_UNTRUSTED && force && lk_file_is_ours(name)) {
        lk_file_unlink(name); /* a pipe or the like, which nobody can be using as a segment */
        return LK_OK;
    }
    if (status != LK_OK) {
        return status;
    }
    status = lk_lock_take(&segment->lock, LK_ROLE_NAME);
    if (status == LK_E_TAKEN) {
        status = LK_E_NOT_READY; /* being created or reclaimed by another right now */
    }
    if (status == LK_OK && lk_file_is_named(&segment->id)) {
        status = judge_orphan(segment, force);
        if (status == LK_OK && remove) {
            status = invalidate_file(segment);
        }
        if (status == LK_OK && remove) {
            lk_file_unlink(name);
        }
    }
    release_keeping_errno(segment);
    return status;
}

int lk_segment_reclaim(const char *name, int force) {
    return reclaim(name, force != 0, true);
}

int lk_segment_judge(const char *name) {
    return reclaim(name, false, false);
}

/* --- taking over ------------------------------------------------------------------------------ */

/* One attempt; LK_E_NOT_READY: somebody else was at work on the name, come again. */
static int adopt_opened(lk_segment *segment, const struct lk_segment_request *request,
                        struct lk_segment_header *header) {
    int status = lk_lock_take_within(&segment->lock, LK_ROLE_NAME, 10);
    if (status == LK_E_TAKEN || (status == LK_OK && !lk_file_is_named(&segment->id))) {
        return LK_E_NOT_READY;
    }
    if (status == LK_OK) {
        status = judge_orphan(segment, false);
    }
    if (status != LK_OK) {
        return status;
    }
    status = lk_lock_take(&segment->lock, LK_ROLE_OWNER);
    if (status == LK_E_TAKEN) {
        return LK_E_NOT_FOUND; /* its owner has ended it, and is about to let go */
    }
    if (status == LK_OK) {
        status = attach_opened(segment, request, header);
    }
    if (status != LK_OK) {
        return status == LK_E_SYSTEM ? status : LK_E_NOT_FOUND; /* none that can be used */
    }
    return lk_segment_invalidated(segment) ? LK_E_NOT_FOUND : LK_OK; /* its owner ended it */
}

int lk_segment_adopt(lk_segment **out, const struct lk_segment_request *request,
                     struct lk_segment_header *header) {
    char name[LK_NAME_SIZE];
    int status = name_of(request, name);
    for (int turn = 0; status == LK_OK && turn < 100; turn++) {
        status = lk_segment_open(out, name, O_RDWR, NULL);
        if (status != LK_OK) {
            return status;
        }
        status = adopt_opened(*out, request, header);
        if (status == LK_OK) {
            return LK_OK;
        }
        release_keeping_errno(*out);
        if (status == LK_E_NOT_READY && turn < 99) {
            wait_for_others();
            status = LK_OK;
        }
    }
    return status;
}

void lk_segment_adopt_finish(lk_segment *segment) {
    lk_header_write_owner(lk_segment_header_of(segment));
    lk_segment_own(segment);
    lk_lock_drop(&segment->lock, LK_ROLE_NAME);
}

void lk_segment_leave(lk_segment *segment) {
    lk_segment_disown(segment);
    /* Our last step: a successor may be there right after it. */
    lk_lock_drop(&segment->lock, LK_ROLE_OWNER);
}
