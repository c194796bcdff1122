/*
 * lk_segment.c: create, attach, reclaim, take over.
 *
 * Labels
 *   [S1] ready: release store by the creator / acquire load by whoever attaches
 *   [S2] flags: release by whoever invalidates / acquire by whoever acts on it; both steps are in
 *        lk_segment_map.c
 *
 * Who writes: the creator, all of the header before [S1]; flags afterwards also by a reclaimer.
 * Who dies: a creator before [S1] leaves a file without the ready word. It held a lock on the file
 * (flock, which the kernel drops at death), so whoever gets that lock and finds no ready word may
 * remove it. An owner after [S1] is judged by the identity in its header.
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

/* --- create ----------------------------------------------------------------------------------- */

/* Fill the empty file behind fd. On success the segment holds the creation lock. */
static int build(lk_segment **out, int fd, const char *name,
                 const struct lk_segment_request *request) {
    struct lk_process self;
    struct lk_segment_id id;
    uint64_t size;
    int status = lk_file_identify(fd, name, &id, &size);
    if (status == LK_OK && !lk_file_lock(fd, 0)) {
        return LK_E_NOT_READY; /* a reclaimer took the empty file for an orphan: start over */
    }
    if (status == LK_OK) {
        status = lk_process_self(&self);
    }
    if (status == LK_OK) {
        int error;
        do {
            error = posix_fallocate(fd, 0, (off_t)request->total_size);
        } while (error == EINTR);
        status = error == 0 ? LK_OK : lk_file_status(error);
    }
    if (status == LK_OK) {
        status = lk_segment_map(out, fd, &id, request->total_size, MAP_POPULATE);
    }
    if (status != LK_OK) {
        int saved = errno;
        if (lk_file_is_named(&id)) { /* a reclaimer may have given the name to another creator */
            lk_file_unlink(name);
        }
        errno = saved;
        return status;
    }
    lk_header_write(lk_segment_header_of(*out), request, &self);
    (*out)->lock_fd = fd;
    lk_segment_own(*out, &self);
    return LK_OK;
}

int lk_segment_create(lk_segment **out, const struct lk_segment_request *request) {
    char name[LK_NAME_SIZE];
    int status = name_of(request, name);
    bool busy = false;
    /* Each turn ends in success, a final answer, or somebody else's progress. */
    for (int turn = 0; status == LK_OK && turn < 100; turn++) {
        int fd = lk_file_open(name, O_RDWR | O_CREAT | O_EXCL);
        if (fd >= 0) {
            status = build(out, fd, name, request);
            if (status == LK_OK) {
                return LK_OK;
            }
            lk_file_unlock_and_close(fd);
        } else {
            status = errno == EEXIST   ? lk_segment_reclaim(name, 0)
                     : errno == ENOENT ? LK_E_SYSTEM /* there is no shared memory at all */
                                       : lk_file_status(errno);
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

int lk_segment_make_ready(lk_segment *segment) {
    /* [S1] release: pairs with the acquire in lk_segment_attach; whoever sees the word sees a
     * complete header. */
    atomic_store_explicit(&lk_segment_header_of(segment)->ready, LK_READY, memory_order_release);
    /* Between creating the file and locking it a reclaimer may have removed the name. */
    bool ours = lk_file_is_named(&segment->id);
    lk_file_unlock_and_close(segment->lock_fd);
    segment->lock_fd = -1;
    return ours ? LK_OK : LK_E_NOT_READY;
}

/* --- attach ----------------------------------------------------------------------------------- */

static int attach_file(lk_segment **out, int fd, const char *name,
                       const struct lk_segment_request *request, struct lk_segment_header *header) {
    struct lk_segment_id id;
    uint64_t size;
    int status = lk_file_identify(fd, name, &id, &size);
    if (status != LK_OK) {
        return status;
    }
    if (size < LK_HEADER_SIZE) {
        return size == 0 ? LK_E_NOT_READY : LK_E_TRUNCATED;
    }
    /* Not populated: pages of a huge file that a hostile creator left sparse cost nothing. */
    status = lk_segment_map(out, fd, &id, size, 0);
    if (status != LK_OK) {
        return status;
    }
    /* [S1] acquire: pairs with the release in lk_segment_make_ready; the header is complete. */
    uint32_t ready = atomic_load_explicit(&lk_segment_header_of(*out)->ready, memory_order_acquire);
    /* Copied once, judged as copied: what a peer changes later can not get past the checks. Not
     * before it is ready: its creator may be writing it. */
    if (ready != 0) {
        memcpy(header, lk_segment_header_of(*out), sizeof *header);
    }
    status = lk_header_check(header, ready, size);
    if (status == LK_OK && header->magic != request->magic) {
        status = LK_E_WRONG_KIND;
    }
    if (status == LK_OK && !lk_header_same_run(header, request)) {
        status = LK_E_NOT_FOUND; /* another id with the same hash: this run has no segment */
    }
    if (status == LK_OK && lk_segment_damaged(*out)) {
        status = LK_E_TRUNCATED;
    }
    if (status != LK_OK) {
        lk_segment_release(*out);
        *out = NULL;
    }
    return status;
}

int lk_segment_attach(lk_segment **out, const struct lk_segment_request *request,
                      struct lk_segment_header *header) {
    char name[LK_NAME_SIZE];
    int status = name_of(request, name);
    if (status != LK_OK) {
        return status;
    }
    int fd = lk_file_open(name, O_RDWR);
    if (fd < 0) {
        return lk_file_status(errno);
    }
    status = attach_file(out, fd, name, request, header);
    int saved = errno;
    close(fd);
    errno = saved;
    return status;
}

/* --- reclaim ---------------------------------------------------------------------------------- */

/* Whether the file behind fd, whose lock we hold, is nobody's any more. */
static int judge_orphan(int fd, bool force) {
    struct lk_segment_header header;
    uint64_t file_size;
    int status = lk_header_read(fd, &header, sizeof header, &file_size);
    uint32_t ready = atomic_load_explicit(&header.ready, memory_order_relaxed);
    if (status == LK_E_NOT_READY || (status == LK_OK && ready == 0)) {
        return LK_OK; /* its creator died half-way: alive, it would hold the lock */
    }
    if (status == LK_E_TRUNCATED) {
        return LK_OK; /* too short for a header: nobody can use it any more */
    }
    if (status != LK_OK) {
        return status;
    }
    if (ready != LK_READY || lk_header_kind(header.magic) == LK_KIND_UNKNOWN) {
        return force ? LK_OK : LK_E_WRONG_KIND; /* no owner to be judged by */
    }
    uint32_t flags = atomic_load_explicit(&header.flags, memory_order_relaxed);
    if (force || (flags & LK_FLAG_INVALIDATED) != 0) {
        return LK_OK;
    }
    struct lk_process self;
    if (lk_process_self(&self) != LK_OK) {
        return LK_E_SYSTEM; /* out of file descriptors, say: then nobody can be judged */
    }
    return lk_segment_owner(&header) == LK_DEAD ? LK_OK : LK_E_EXISTS;
}

/* Tell attached readers that this segment will see no more frames. */
static void invalidate_file(int fd, const struct lk_segment_id *id, uint64_t size) {
    lk_segment *segment;
    if (size >= LK_HEADER_SIZE && lk_segment_map(&segment, fd, id, LK_HEADER_SIZE, 0) == LK_OK) {
        lk_segment_invalidate(segment);
        lk_segment_release(segment);
    }
}

static int reclaim(const char *name, bool force, bool remove) {
    if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0) {
        return LK_E_INVALID; /* another program's shared memory */
    }
    int fd = lk_file_open(name, O_RDWR);
    if (fd < 0) {
        return errno == ENOENT ? LK_OK : lk_file_status(errno);
    }
    struct lk_segment_id id;
    uint64_t size;
    int status = lk_file_identify(fd, name, &id, &size);
    if (status == LK_E_WRONG_KIND && force) {
        lk_file_unlink(name); /* a pipe or the like, which nobody can be using as a segment */
        close(fd);
        return LK_OK;
    }
    if (status == LK_OK && !lk_file_lock(fd, 0)) {
        status = LK_E_NOT_READY; /* being created or reclaimed by another right now */
    }
    if (status == LK_OK && lk_file_is_named(&id)) {
        status = judge_orphan(fd, force);
        if (status == LK_OK && remove) {
            invalidate_file(fd, &id, size);
            lk_file_unlink(name);
        }
    }
    lk_file_unlock_and_close(fd);
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
static int adopt_file(lk_segment **out, int fd, const char *name,
                      const struct lk_segment_request *request, struct lk_segment_header *header) {
    struct lk_segment_id id;
    uint64_t size;
    int status = lk_file_identify(fd, name, &id, &size);
    if (status != LK_OK) {
        return status;
    }
    if (!lk_file_lock(fd, 10) || !lk_file_is_named(&id)) {
        return LK_E_NOT_READY;
    }
    status = judge_orphan(fd, false);
    if (status != LK_OK) {
        return status;
    }
    status = attach_file(out, fd, name, request, header);
    if (status == LK_E_SYSTEM || status == LK_E_TOO_MANY) {
        return status;
    }
    if (status != LK_OK) {
        return LK_E_NOT_FOUND; /* an orphan, but none that can be used */
    }
    if (lk_segment_invalidated(*out)) {
        lk_segment_release(*out);
        return LK_E_NOT_FOUND; /* its owner ended it */
    }
    (*out)->lock_fd = fd;
    return LK_OK;
}

int lk_segment_adopt(lk_segment **out, const struct lk_segment_request *request,
                     struct lk_segment_header *header) {
    char name[LK_NAME_SIZE];
    int status = name_of(request, name);
    if (status != LK_OK) {
        return status;
    }
    for (int turn = 0; turn < 100; turn++) {
        int fd = lk_file_open(name, O_RDWR);
        if (fd < 0) {
            return lk_file_status(errno);
        }
        status = adopt_file(out, fd, name, request, header);
        if (status == LK_OK) {
            return LK_OK;
        }
        lk_file_unlock_and_close(fd);
        if (status != LK_E_NOT_READY) {
            return status;
        }
        wait_for_others();
    }
    return status;
}

int lk_segment_adopt_finish(lk_segment *segment) {
    struct lk_process self;
    int status = lk_process_self(&self);
    if (status != LK_OK) {
        return status;
    }
    /* Under the lock, like every judgement of the owner. If we die half-way, the mix of two dead
     * processes is a dead one too. */
    lk_header_write_owner(lk_segment_header_of(segment), &self);
    lk_segment_own(segment, &self);
    lk_file_unlock_and_close(segment->lock_fd);
    segment->lock_fd = -1;
    return LK_OK;
}

void lk_segment_leave(lk_segment *segment) {
    lk_segment_disown(segment);
    /* No process has this pid. One store, and our last: a successor may be there right after it. */
    lk_segment_header_of(segment)->owner_pid = 0;
}
