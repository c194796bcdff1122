/*
 * lk_segment.c: create, attach, validate, reclaim, unlink.
 *
 * Labels
 *   [S1] ready: release store by the creator / acquire load by whoever attaches
 *   [S2] flags: release by whoever invalidates / acquire by whoever acts on it
 *   [S3] references of a mapping: release on drop / acquire before unmapping
 *   [S4] pool entries: release when an entry is filled / acquire by the signal handlers
 *
 * Who writes: the creator, all of the header before [S1]; flags afterwards also by a reclaimer.
 * Who dies: a creator before [S1] leaves a file without the ready word. It held a lock on the file
 * (flock, which the kernel drops at death), so whoever gets that lock and finds no ready word may
 * remove it. An owner after [S1] is judged by the identity in its header.
 * Removing a name is only done under that lock, after checking that the name still means the
 * locked file: so two processes that both see an orphan can not remove each other's successor.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_POPULATE
#define MAP_POPULATE 0
#endif

#define SEGMENTS_MAX 1024
#define SHM_DIRECTORY "/dev/shm/"
#define PATH_SIZE (sizeof SHM_DIRECTORY + LK_NAME_SIZE)
#define NAME_PREFIX "lanekit-"

/* What the signal handlers may do with an owned segment. */
enum ownership { OWNED_NOT = 0, OWNED = 1, OWNED_LETTING_GO = 2 };

struct lk_segment {
    _Atomic uint32_t references; /* 0: the pool entry is free */
    _Atomic uint32_t damaged;
    _Atomic uint32_t ownership;
    _Atomic uintptr_t base; /* 0 while the entry is being filled or emptied */
    _Atomic uint64_t size;
    int lock_fd; /* holds the creation lock until ready, else -1 */
    pid_t owner_pid;
    struct lk_segment_id id;
    char path[PATH_SIZE];
};

/* Lock a file, or give up after about this many milliseconds: nobody may hold it for long. */
static bool lock_file(int fd, int patience_ms) {
    for (;;) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            return true;
        }
        if (patience_ms-- <= 0) {
            return false;
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
}

/* A mapping keeps the open file, and with it the lock, beyond close(): so let go by name. */
static void unlock_and_close(int fd) {
    int saved = errno;
    flock(fd, LOCK_UN);
    close(fd);
    errno = saved;
}

/* Entries are never freed, only reused: a signal handler may look at one at any moment. */
static struct lk_segment pool[SEGMENTS_MAX];

static struct lk_segment *pool_take(void) {
    for (int i = 0; i < SEGMENTS_MAX; i++) {
        uint32_t none = 0;
        /* [S3] acquire: pairs with the release in lk_segment_release; the entry's last user is
         * done with it. */
        if (atomic_compare_exchange_strong_explicit(&pool[i].references, &none, 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return &pool[i];
        }
    }
    return NULL;
}

static void pool_return(struct lk_segment *segment) {
    /* [S3] release: pairs with the acquire in pool_take. */
    atomic_store_explicit(&segment->references, 0, memory_order_release);
}

void lk_segment_retain(lk_segment *segment) {
    /* relaxed: the caller holds a reference already, so the count can not reach zero meanwhile */
    atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
}

void lk_segment_release(lk_segment *segment) {
    uint32_t left = atomic_load_explicit(&segment->references, memory_order_relaxed);
    /* The last reference is not given back before the mapping is gone, or pool_take could hand the
     * entry out too early. */
    for (;;) {
        if (left == 1) {
            break;
        }
        /* [S3] release on success: pairs with the acquire fence below; our accesses to the mapping
         * come before its end. */
        if (atomic_compare_exchange_weak_explicit(&segment->references, &left, left - 1,
                                                  memory_order_release, memory_order_relaxed)) {
            return;
        }
    }
    /* [S3] acquire: pairs with the releases of the other holders. */
    atomic_thread_fence(memory_order_acquire);
    void *base = (void *)atomic_load_explicit(&segment->base, memory_order_relaxed);
    size_t size = (size_t)atomic_load_explicit(&segment->size, memory_order_relaxed);
    lk_segment_disown(segment);
    atomic_store_explicit(&segment->base, 0, memory_order_relaxed);
    munmap(base, size);
    if (segment->lock_fd >= 0) {
        unlock_and_close(segment->lock_fd);
        segment->lock_fd = -1;
    }
    pool_return(segment);
}

void *lk_segment_base(const lk_segment *segment) {
    return (void *)atomic_load_explicit(&segment->base, memory_order_relaxed);
}

uint64_t lk_segment_size(const lk_segment *segment) {
    return atomic_load_explicit(&segment->size, memory_order_relaxed);
}

const struct lk_segment_id *lk_segment_identity(const lk_segment *segment) {
    return &segment->id;
}

bool lk_segment_damaged(const lk_segment *segment) {
    return atomic_load_explicit(&segment->damaged, memory_order_relaxed) != 0;
}

static struct lk_segment_header *header_of(const lk_segment *segment) {
    return lk_segment_base(segment);
}

void lk_segment_invalidate(lk_segment *segment) {
    /* [S2] release: pairs with the acquire in lk_segment_invalidated; frames published before the
     * end are visible to a reader that learns of the end. */
    atomic_fetch_or_explicit(&header_of(segment)->flags, LK_FLAG_INVALIDATED, memory_order_release);
}

bool lk_segment_invalidated(const lk_segment *segment) {
    /* [S2] acquire: pairs with the release in lk_segment_invalidate. */
    uint32_t flags = atomic_load_explicit(&header_of(segment)->flags, memory_order_acquire);
    return (flags & LK_FLAG_INVALIDATED) != 0;
}

/* --- names and files -------------------------------------------------------------------------- */

static int status_of_errno(int error) {
    switch (error) {
    case ENOENT: return LK_E_NOT_FOUND;
    case EACCES:
    case EPERM: return LK_E_PERMISSION;
    case ENOMEM:
    case ENOSPC: return LK_E_NO_SPACE;
    default: errno = error; return LK_E_SYSTEM;
    }
}

static int open_name(const char *name, int flags) {
    char slashed[LK_NAME_SIZE + 1];
    if (strlen(name) >= LK_NAME_SIZE || strchr(name, '/') != NULL) {
        errno = EINVAL;
        return -1;
    }
    snprintf(slashed, sizeof slashed, "/%s", name);
    /* Not blocking: somebody may have put a pipe there, which would hold us until a peer comes. */
    return shm_open(slashed, flags | O_CLOEXEC | O_NONBLOCK, 0600);
}

static void unlink_name(const char *name) {
    char slashed[LK_NAME_SIZE + 1];
    snprintf(slashed, sizeof slashed, "/%s", name);
    shm_unlink(slashed);
}

static int identify(int fd, const char *name, struct lk_segment_id *id, uint64_t *size) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return LK_E_SYSTEM;
    }
    if (!S_ISREG(info.st_mode)) {
        return LK_E_WRONG_KIND;
    }
    snprintf(id->name, sizeof id->name, "%s", name);
    id->device = info.st_dev;
    id->inode = info.st_ino;
    *size = (uint64_t)info.st_size;
    return LK_OK;
}

/* Whether the name still leads to this very file. */
static bool name_means(const struct lk_segment_id *id) {
    /* By path, which needs no file descriptor: a process that has run out of them must not
     * conclude that the name has moved on. */
    char path[PATH_SIZE];
    struct stat info;
    snprintf(path, sizeof path, SHM_DIRECTORY "%s", id->name);
    return stat(path, &info) == 0 && info.st_dev == id->device && info.st_ino == id->inode;
}

int lk_segment_unlink(const struct lk_segment_id *id) {
    int fd = open_name(id->name, O_RDONLY);
    if (fd < 0) {
        return errno == ENOENT ? LK_OK : status_of_errno(errno);
    }
    /* Removal happens under the file's lock; see the head of this file. Whoever holds it longer
     * than a reclaimer could is stuck, and must not keep the owner from removing what it owns. */
    lock_file(fd, 100);
    struct stat info;
    if (fstat(fd, &info) == 0 && info.st_dev == id->device && info.st_ino == id->inode &&
        name_means(id)) {
        unlink_name(id->name);
    }
    unlock_and_close(fd);
    return LK_OK;
}

/* --- mapping ---------------------------------------------------------------------------------- */

static int map_file(lk_segment **out, int fd, const struct lk_segment_id *id, uint64_t size,
                    int populate) {
    struct lk_segment *segment = pool_take();
    if (segment == NULL) {
        return LK_E_TOO_MANY;
    }
    void *base = size <= SIZE_MAX ? mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | populate, fd, 0)
                                  : MAP_FAILED;
    if (base == MAP_FAILED) {
        pool_return(segment);
        return LK_E_SYSTEM;
    }
    segment->id = *id;
    segment->lock_fd = -1;
    segment->owner_pid = 0;
    snprintf(segment->path, sizeof segment->path, SHM_DIRECTORY "%s", id->name);
    atomic_store_explicit(&segment->damaged, 0, memory_order_relaxed);
    atomic_store_explicit(&segment->ownership, OWNED_NOT, memory_order_relaxed);
    /* [S4] release: pairs with the acquire in lk_segment_absorb_fault; whoever sees this size sees
     * that the entry's last mapping has left `base`. */
    atomic_store_explicit(&segment->size, size, memory_order_release);
    /* [S4] release: pairs with the acquire in lk_segment_absorb_fault; the size is not older. */
    atomic_store_explicit(&segment->base, (uintptr_t)base, memory_order_release);
    *out = segment;
    return LK_OK;
}

/* --- create ----------------------------------------------------------------------------------- */

static void write_owner(struct lk_segment_header *header, const struct lk_process *owner) {
    header->owner_pid = owner->pid;
    header->owner_start_ticks = owner->start_ticks;
    header->owner_pid_namespace = owner->pid_namespace;
    memcpy(header->owner_boot_id, owner->boot_id, sizeof header->owner_boot_id);
}

static void write_header(struct lk_segment_header *header, const struct lk_segment_request *request,
                         const struct lk_process *self) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    header->magic = request->magic;
    header->version_major = LK_LAYOUT_MAJOR;
    header->version_minor = LK_LAYOUT_MINOR;
    header->header_size = LK_HEADER_SIZE;
    header->total_size = request->total_size;
    header->created_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    write_owner(header, self);
    atomic_store_explicit(&header->heartbeat_ns, lk_clock_ns(), memory_order_relaxed);
    size_t kept = request->run_id_size < LK_RUN_ID_MAX ? request->run_id_size : LK_RUN_ID_MAX;
    header->run_id_size = (uint32_t)kept;
    memcpy(header->run_id, request->run_id, kept);
}

/* From now on the signal handlers end this segment with the process. */
static void become_owner(lk_segment *segment, const struct lk_process *self) {
    segment->owner_pid = (pid_t)self->pid;
    /* [S4] release: pairs with the acquire in lk_segment_abandon_owned. */
    atomic_store_explicit(&segment->ownership, OWNED, memory_order_release);
}

/* Fill the empty file behind fd. On success the segment holds the creation lock. */
static int build(lk_segment **out, int fd, const char *name,
                 const struct lk_segment_request *request) {
    struct lk_process self;
    struct lk_segment_id id;
    uint64_t size;
    int status = identify(fd, name, &id, &size);
    if (status == LK_OK && !lock_file(fd, 0)) {
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
        status = error == 0 ? LK_OK : status_of_errno(error);
    }
    if (status == LK_OK) {
        status = map_file(out, fd, &id, request->total_size, MAP_POPULATE);
    }
    if (status != LK_OK) {
        int saved = errno;
        if (name_means(&id)) { /* a reclaimer may have given the name to another creator */
            unlink_name(name);
        }
        errno = saved;
        return status;
    }
    write_header(header_of(*out), request, &self);
    (*out)->lock_fd = fd;
    become_owner(*out, &self);
    return LK_OK;
}

int lk_segment_create(lk_segment **out, const struct lk_segment_request *request) {
    char name[LK_NAME_SIZE];
    int status =
        lk_segment_name(request->kind, request->run_id, request->run_id_size, name, sizeof name);
    bool busy = false;
    /* Each turn ends in success, a final answer, or somebody else's progress. */
    for (int turn = 0; status == LK_OK && turn < 100; turn++) {
        int fd = open_name(name, O_RDWR | O_CREAT | O_EXCL);
        if (fd >= 0) {
            status = build(out, fd, name, request);
            if (status == LK_OK) {
                return LK_OK;
            }
            unlock_and_close(fd);
        } else {
            status = errno == EEXIST   ? lk_segment_reclaim(name, 0)
                     : errno == ENOENT ? LK_E_SYSTEM /* there is no shared memory at all */
                                       : status_of_errno(errno);
        }
        busy = status == LK_E_NOT_READY;
        if (busy) {
            struct timespec pause = {.tv_sec = 0, .tv_nsec = 2000000};
            nanosleep(&pause, NULL);
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
    atomic_store_explicit(&header_of(segment)->ready, LK_READY, memory_order_release);
    /* Between creating the file and locking it a reclaimer may have removed the name. */
    bool ours = name_means(&segment->id);
    unlock_and_close(segment->lock_fd);
    segment->lock_fd = -1;
    return ours ? LK_OK : LK_E_NOT_READY;
}

/* --- attach ----------------------------------------------------------------------------------- */

static uint32_t kind_of_magic(uint32_t magic) {
    switch (magic) {
    case LK_MAGIC_FRAME: return LK_KIND_FRAME;
    case LK_MAGIC_STEP: return LK_KIND_STEP;
    case LK_MAGIC_TRAJ: return LK_KIND_TRAJ;
    default: return LK_KIND_UNKNOWN;
    }
}

/* Judge a private copy of a header against the file it came from. */
static int check_header(const struct lk_segment_header *header, uint32_t ready,
                        uint64_t file_size) {
    if (ready == 0) {
        return LK_E_NOT_READY;
    }
    if (ready != LK_READY || kind_of_magic(header->magic) == LK_KIND_UNKNOWN) {
        return LK_E_WRONG_KIND;
    }
    if (header->version_major != LK_LAYOUT_MAJOR) {
        return LK_E_WRONG_VERSION;
    }
    if (header->header_size != LK_HEADER_SIZE || header->run_id_size > LK_RUN_ID_MAX ||
        header->total_size < LK_HEADER_SIZE) {
        return LK_E_BAD_GEOMETRY;
    }
    return header->total_size <= file_size ? LK_OK : LK_E_TRUNCATED;
}

static bool same_run(const struct lk_segment_header *header,
                     const struct lk_segment_request *request) {
    size_t kept = request->run_id_size < LK_RUN_ID_MAX ? request->run_id_size : LK_RUN_ID_MAX;
    return header->run_id_size == kept && memcmp(header->run_id, request->run_id, kept) == 0;
}

static int attach_file(lk_segment **out, int fd, const char *name,
                       const struct lk_segment_request *request, struct lk_segment_header *header) {
    struct lk_segment_id id;
    uint64_t size;
    int status = identify(fd, name, &id, &size);
    if (status != LK_OK) {
        return status;
    }
    if (size < LK_HEADER_SIZE) {
        return size == 0 ? LK_E_NOT_READY : LK_E_TRUNCATED;
    }
    /* Not populated: pages of a huge file that a hostile creator left sparse cost nothing. */
    status = map_file(out, fd, &id, size, 0);
    if (status != LK_OK) {
        return status;
    }
    /* [S1] acquire: pairs with the release in lk_segment_make_ready; the header is complete. */
    uint32_t ready = atomic_load_explicit(&header_of(*out)->ready, memory_order_acquire);
    /* Copied once, judged as copied: what a peer changes later can not get past the checks. Not
     * before it is ready: its creator may be writing it. */
    if (ready != 0) {
        memcpy(header, header_of(*out), sizeof *header);
    }
    status = check_header(header, ready, size);
    if (status == LK_OK && header->magic != request->magic) {
        status = LK_E_WRONG_KIND;
    }
    if (status == LK_OK && !same_run(header, request)) {
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
    int status =
        lk_segment_name(request->kind, request->run_id, request->run_id_size, name, sizeof name);
    if (status != LK_OK) {
        return status;
    }
    int fd = open_name(name, O_RDWR);
    if (fd < 0) {
        return status_of_errno(errno);
    }
    status = attach_file(out, fd, name, request, header);
    int saved = errno;
    close(fd);
    errno = saved;
    return status;
}

/* --- inspect and reclaim ---------------------------------------------------------------------- */

enum lk_liveness lk_segment_owner(const struct lk_segment_header *header) {
    struct lk_process owner = {
        .pid = header->owner_pid,
        .start_ticks = header->owner_start_ticks,
        .pid_namespace = header->owner_pid_namespace,
    };
    memcpy(owner.boot_id, header->owner_boot_id, sizeof owner.boot_id);
    return lk_process_liveness(&owner);
}

/* Read a header through the file: a copy that no truncation can turn into a fault. */
static int read_header(int fd, void *out, size_t size, uint64_t *file_size) {
    struct stat info;
    memset(out, 0, size);
    *file_size = 0;
    if (fstat(fd, &info) != 0) {
        return LK_E_SYSTEM;
    }
    *file_size = (uint64_t)info.st_size;
    if (!S_ISREG(info.st_mode)) {
        return LK_E_WRONG_KIND;
    }
    if (info.st_size < (off_t)LK_HEADER_SIZE) {
        return info.st_size == 0 ? LK_E_NOT_READY : LK_E_TRUNCATED;
    }
    ssize_t got = pread(fd, out, size, 0);
    if (got < 0) {
        return LK_E_SYSTEM;
    }
    return (size_t)got == size ? LK_OK : LK_E_TRUNCATED;
}

int lk_segment_peek_header(const char *name, void *out, size_t size) {
    memset(out, 0, size);
    int fd = open_name(name, O_RDONLY);
    if (fd < 0) {
        return status_of_errno(errno);
    }
    uint64_t file_size = 0;
    int status = read_header(fd, out, size, &file_size);
    if (status == LK_OK) {
        const struct lk_segment_header *header = out;
        uint32_t ready = atomic_load_explicit(&header->ready, memory_order_relaxed);
        status = check_header(header, ready, file_size);
    }
    close(fd);
    return status;
}

int lk_segment_inspect(const char *name, struct lk_segment_info *out) {
    struct lk_segment_header header;
    memset(out, 0, sizeof *out);
    int status = lk_segment_peek_header(name, &header, sizeof header);
    if (status == LK_E_NOT_FOUND || status == LK_E_PERMISSION || status == LK_E_SYSTEM ||
        status == LK_E_NOT_READY || status == LK_E_WRONG_KIND) {
        return status;
    }
    /* The first 128 bytes mean the same in every version, so even a refusal names the owner. */
    out->kind = kind_of_magic(header.magic);
    out->version_major = header.version_major;
    out->version_minor = header.version_minor;
    out->flags = atomic_load_explicit(&header.flags, memory_order_relaxed);
    out->owner_pid = header.owner_pid;
    out->owner = lk_segment_owner(&header);
    out->total_size = header.total_size;
    out->created_unix_ns = header.created_unix_ns;
    out->heartbeat_ns = atomic_load_explicit(&header.heartbeat_ns, memory_order_relaxed);
    if (header.run_id_size <= LK_RUN_ID_MAX) {
        out->run_id_size = header.run_id_size;
        memcpy(out->run_id, header.run_id, header.run_id_size);
    }
    return status;
}

/* Whether the file behind fd, whose lock we hold, is nobody's any more. */
static int judge_orphan(int fd, bool force) {
    struct lk_segment_header header;
    uint64_t file_size;
    int status = read_header(fd, &header, sizeof header, &file_size);
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
    if (ready != LK_READY || kind_of_magic(header.magic) == LK_KIND_UNKNOWN) {
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
    if (size >= LK_HEADER_SIZE && map_file(&segment, fd, id, LK_HEADER_SIZE, 0) == LK_OK) {
        lk_segment_invalidate(segment);
        lk_segment_release(segment);
    }
}

static int reclaim(const char *name, bool force, bool remove) {
    if (strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0) {
        return LK_E_INVALID; /* another program's shared memory */
    }
    int fd = open_name(name, O_RDWR);
    if (fd < 0) {
        return errno == ENOENT ? LK_OK : status_of_errno(errno);
    }
    struct lk_segment_id id;
    uint64_t size;
    int status = identify(fd, name, &id, &size);
    if (status == LK_E_WRONG_KIND && force) {
        unlink_name(name); /* a pipe or the like, which nobody can be using as a segment */
        close(fd);
        return LK_OK;
    }
    if (status == LK_OK && !lock_file(fd, 0)) {
        status = LK_E_NOT_READY; /* being created or reclaimed by another right now */
    }
    if (status == LK_OK && name_means(&id)) {
        status = judge_orphan(fd, force);
        if (status == LK_OK && remove) {
            invalidate_file(fd, &id, size);
            unlink_name(name);
        }
    }
    unlock_and_close(fd);
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
    int status = identify(fd, name, &id, &size);
    if (status != LK_OK) {
        return status;
    }
    if (!lock_file(fd, 10) || !name_means(&id)) {
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
    int status =
        lk_segment_name(request->kind, request->run_id, request->run_id_size, name, sizeof name);
    if (status != LK_OK) {
        return status;
    }
    for (int turn = 0; turn < 100; turn++) {
        int fd = open_name(name, O_RDWR);
        if (fd < 0) {
            return status_of_errno(errno);
        }
        status = adopt_file(out, fd, name, request, header);
        if (status == LK_OK) {
            return LK_OK;
        }
        unlock_and_close(fd);
        if (status != LK_E_NOT_READY) {
            return status;
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 2000000};
        nanosleep(&pause, NULL);
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
    write_owner(header_of(segment), &self);
    become_owner(segment, &self);
    unlock_and_close(segment->lock_fd);
    segment->lock_fd = -1;
    return LK_OK;
}

void lk_segment_leave(lk_segment *segment) {
    lk_segment_disown(segment);
    /* No process has this pid. One store, and our last: a successor may be there right after it. */
    header_of(segment)->owner_pid = 0;
}

/* --- what the signal handlers need ------------------------------------------------------------ */

void lk_segment_disown(lk_segment *segment) {
    uint32_t owned = OWNED;
    /* relaxed: only decides who cleans up; a handler that comes before finds the mapping intact,
     * because it is unmapped only after this */
    atomic_compare_exchange_strong_explicit(&segment->ownership, &owned, OWNED_NOT,
                                            memory_order_relaxed, memory_order_relaxed);
    /* [S4] acquire: pairs with the release at the end of lk_segment_abandon_owned; a handler in
     * another thread may be at work on the mapping, and must be done with it before it goes. */
    while (atomic_load_explicit(&segment->ownership, memory_order_acquire) == OWNED_LETTING_GO) {
        lk_cpu_relax();
    }
}

bool lk_segment_absorb_fault(void *address) {
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < SEGMENTS_MAX; i++) {
        /* [S4] acquire: pairs with the release in map_file; size belongs to this base. */
        uintptr_t base = atomic_load_explicit(&pool[i].base, memory_order_acquire);
        /* [S4] acquire: pairs with the release in map_file; if the entry has changed hands since,
         * the second look at its base says so. */
        uint64_t size = atomic_load_explicit(&pool[i].size, memory_order_acquire);
        if (base == 0 || at < base || at - base >= size ||
            atomic_load_explicit(&pool[i].base, memory_order_relaxed) != base) {
            continue;
        }
        uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
        void *page = (void *)(at & ~(page_size - 1));
        if (mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0) == MAP_FAILED) {
            return false;
        }
        atomic_store_explicit(&pool[i].damaged, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

void lk_segment_abandon_owned(void) {
    pid_t self = getpid();
    for (int i = 0; i < SEGMENTS_MAX; i++) {
        uint32_t owned = OWNED;
        struct stat info;
        /* [S4] acquire: pairs with the release in become_owner; path and identity are complete. */
        if (!atomic_compare_exchange_strong_explicit(&pool[i].ownership, &owned, OWNED_LETTING_GO,
                                                     memory_order_acquire, memory_order_relaxed)) {
            continue;
        }
        if (pool[i].owner_pid == self) {
            /* The name first: once invalidated, a successor may take it, and we hold no lock. */
            if (stat(pool[i].path, &info) == 0 && info.st_dev == pool[i].id.device &&
                info.st_ino == pool[i].id.inode) {
                unlink(pool[i].path);
            }
            lk_segment_invalidate(&pool[i]);
        }
        /* [S4] release: pairs with the acquire in lk_segment_disown, which waits for this. */
        atomic_store_explicit(&pool[i].ownership, OWNED_NOT, memory_order_release);
    }
}
