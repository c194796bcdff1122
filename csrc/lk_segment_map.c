/*
 * lk_segment_map.c: the mappings of this process: references, ends, and what signals do to them.
 *
 * Labels
 *   [S3] references of a mapping: release on drop / acquire before unmapping
 *   [S4] pool entries: release when an entry is filled / acquire by the signal handlers
 *   and [S2] of lk_segment.c
 *
 * Who writes: the threads of this process, and its signal handlers; of the shared header only the
 * flags, which others write too.
 * Who dies: with the process its mappings go. A handler that runs before that ends what is owned;
 * without one, whoever finds the owner dead does it (lk_segment.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 1024

/* Entries are never freed, only reused: a signal handler may look at one at any moment. */
static struct lk_segment pool[SEGMENTS_MAX];

/* --- references ------------------------------------------------------------------------------- */

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
    lk_lock_close(&segment->lock);
    /* [S3] release: pairs with the acquire in pool_take. */
    atomic_store_explicit(&segment->references, 0, memory_order_release);
}

int lk_segment_open(lk_segment **out, const char *name, int flags, const uint32_t *allow_uid) {
    struct lk_segment *segment = pool_take();
    *out = NULL;
    if (segment == NULL) {
        return LK_E_TOO_MANY;
    }
    int status = lk_lock_open(&segment->lock, name, flags) == 0 ? LK_OK : lk_file_status(errno);
    uint64_t file_size = 0;
    if (status == LK_OK) {
        status = lk_file_identify(segment->lock.fd, name, allow_uid, &segment->id, &file_size);
    }
    if (status != LK_OK) {
        int saved = errno;
        pool_return(segment);
        errno = saved;
        return status;
    }
    segment->owner_pid = 0;
    segment->file_size = file_size;
    lk_file_path(name, segment->path);
    atomic_store_explicit(&segment->damaged, 0, memory_order_relaxed);
    atomic_store_explicit(&segment->ownership, LK_OWNED_NOT, memory_order_relaxed);
    *out = segment;
    return LK_OK;
}

/* A descriptor of the segment's file that has nothing to do with the one of its locks. */
static int open_again(const lk_segment *segment, int *fd) {
    struct stat info;
    *fd = lk_file_open(segment->id.name, O_RDWR);
    if (*fd < 0) {
        return errno == ENOENT ? LK_E_NOT_READY : lk_file_status(errno);
    }
    if (fstat(*fd, &info) == 0 && info.st_dev == segment->id.device &&
        info.st_ino == segment->id.inode) {
        return LK_OK;
    }
    close(*fd);
    return LK_E_NOT_READY;
}

int lk_segment_map(lk_segment *segment, uint64_t size, int populate) {
    int fd;
    int status = open_again(segment, &fd);
    if (status != LK_OK) {
        return status;
    }
    void *base = size <= SIZE_MAX ? mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | populate, fd, 0)
                                  : MAP_FAILED;
    int saved = errno;
    close(fd);
    if (base == MAP_FAILED) {
        errno = saved;
        return LK_E_SYSTEM;
    }
    /* [S4] release: pairs with the acquire in lk_segment_absorb_fault; whoever sees this size sees
     * that the entry's last mapping has left `base`. */
    atomic_store_explicit(&segment->size, size, memory_order_release);
    /* [S4] release: pairs with the acquire in lk_segment_absorb_fault; the size is not older. */
    atomic_store_explicit(&segment->base, (uintptr_t)base, memory_order_release);
    return LK_OK;
}

void lk_segment_retain(lk_segment *segment) {
    /* relaxed: the caller holds a reference already, so the count can not reach zero meanwhile */
    atomic_fetch_add_explicit(&segment->references, 1, memory_order_relaxed);
}

void lk_segment_release(lk_segment *segment) {
    uint32_t left = atomic_load_explicit(&segment->references, memory_order_relaxed);
    /* The last reference is not given back before mapping and locks are gone, or pool_take could
     * hand the entry out too early. */
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
    if (base != NULL) {
        atomic_store_explicit(&segment->base, 0, memory_order_relaxed);
        munmap(base, size);
    }
    pool_return(segment);
}

/* --- roles ------------------------------------------------------------------------------------ */

int lk_segment_take_role(lk_segment *segment, uint32_t role) {
    return lk_lock_take(&segment->lock, role);
}

void lk_segment_drop_role(lk_segment *segment, uint32_t role) {
    lk_lock_drop(&segment->lock, role);
}

enum lk_liveness lk_segment_role_holder(const lk_segment *segment, uint32_t role) {
    return lk_lock_holder(segment->lock.fd, role);
}

/* --- looking at a mapping ----------------------------------------------------------------------
 */

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

void lk_segment_invalidate(lk_segment *segment) {
    /* [S2] release: pairs with the acquire in lk_segment_invalidated; frames published before the
     * end are visible to a reader that learns of the end. */
    atomic_fetch_or_explicit(&lk_segment_header_of(segment)->flags, LK_FLAG_INVALIDATED,
                             memory_order_release);
}

bool lk_segment_invalidated(const lk_segment *segment) {
    /* [S2] acquire: pairs with the release in lk_segment_invalidate. */
    uint32_t flags =
        atomic_load_explicit(&lk_segment_header_of(segment)->flags, memory_order_acquire);
    return (flags & LK_FLAG_INVALIDATED) != 0;
}

/* --- ownership, and what the signal handlers do -------------------------------------------------
 */

void lk_segment_own(lk_segment *segment) {
    segment->owner_pid = getpid();
    /* [S4] release: pairs with the acquire in lk_segment_abandon_owned. */
    atomic_store_explicit(&segment->ownership, LK_OWNED, memory_order_release);
}

void lk_segment_disown(lk_segment *segment) {
    uint32_t owned = LK_OWNED;
    /* relaxed: only decides who cleans up; a handler that comes before finds the mapping intact,
     * because it is unmapped only after this */
    atomic_compare_exchange_strong_explicit(&segment->ownership, &owned, LK_OWNED_NOT,
                                            memory_order_relaxed, memory_order_relaxed);
    /* [S4] acquire: pairs with the release at the end of lk_segment_abandon_owned; a handler in
     * another thread may be at work on the mapping, and must be done with it before it goes. */
    while (atomic_load_explicit(&segment->ownership, memory_order_acquire) == LK_OWNED_LETTING_GO) {
        lk_cpu_relax();
    }
}

bool lk_segment_absorb_fault(void *address) {
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < SEGMENTS_MAX; i++) {
        /* [S4] acquire: pairs with the release in lk_segment_map; size belongs to this base. */
        uintptr_t base = atomic_load_explicit(&pool[i].base, memory_order_acquire);
        /* [S4] acquire: pairs with the release in lk_segment_map; if the entry has changed hands
         * since, the second look at its base says so. */
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
        uint32_t owned = LK_OWNED;
        struct stat info;
        /* [S4] acquire: pairs with the release in lk_segment_own; path and identity are complete.
         */
        if (!atomic_compare_exchange_strong_explicit(&pool[i].ownership, &owned,
                                                     LK_OWNED_LETTING_GO, memory_order_acquire,
                                                     memory_order_relaxed)) {
            continue;
        }
        if (pool[i].owner_pid == self) {
            /* The name first: once invalidated, a successor may take it over, and the name would
             * be its own. */
            if (lstat(pool[i].path, &info) == 0 && info.st_dev == pool[i].id.device &&
                info.st_ino == pool[i].id.inode) {
                unlink(pool[i].path);
            }
            lk_segment_invalidate(&pool[i]);
        }
        /* [S4] release: pairs with the acquire in lk_segment_disown, which waits for this. */
        atomic_store_explicit(&pool[i].ownership, LK_OWNED_NOT, memory_order_release);
    }
}
