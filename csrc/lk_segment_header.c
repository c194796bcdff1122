/*
 * lk_segment_header.c: the header that all kinds of segments share: written, read, judged.
 *
 * Labels: none; [S1] of lk_segment.c hands the header over, here it is private or a copy.
 *
 * Who writes: a segment's creator before [S1], and whoever takes it over from a dead owner, under
 * the file's lock. Who reads: everybody, as a copy that is judged before it is used.
 * If the owner dies: its identity in the header is what tells.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment_header.h"

#include "lk_segment_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint32_t lk_header_kind(uint32_t magic) {
    switch (magic) {
    case LK_MAGIC_FRAME: return LK_KIND_FRAME;
    case LK_MAGIC_STEP: return LK_KIND_STEP;
    case LK_MAGIC_TRAJ: return LK_KIND_TRAJ;
    default: return LK_KIND_UNKNOWN;
    }
}

/* Longer ids are cut: the name's hash tells them apart. */
static size_t kept_of_run_id(const struct lk_segment_request *request) {
    return request->run_id_size < LK_RUN_ID_MAX ? request->run_id_size : LK_RUN_ID_MAX;
}

void lk_header_write_owner(struct lk_segment_header *header, const struct lk_process *owner) {
    header->owner_pid = owner->pid;
    header->owner_start_ticks = owner->start_ticks;
    header->owner_pid_namespace = owner->pid_namespace;
    memcpy(header->owner_boot_id, owner->boot_id, sizeof header->owner_boot_id);
}

void lk_header_write(struct lk_segment_header *header, const struct lk_segment_request *request,
                     const struct lk_process *self) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    header->magic = request->magic;
    header->version_major = LK_LAYOUT_MAJOR;
    header->version_minor = LK_LAYOUT_MINOR;
    header->header_size = LK_HEADER_SIZE;
    header->total_size = request->total_size;
    header->created_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    lk_header_write_owner(header, self);
    atomic_store_explicit(&header->heartbeat_ns, lk_clock_ns(), memory_order_relaxed);
    size_t kept = kept_of_run_id(request);
    header->run_id_size = (uint32_t)kept;
    memcpy(header->run_id, request->run_id, kept);
}

int lk_header_read(int fd, void *out, size_t size, uint64_t *file_size) {
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

int lk_header_check(const struct lk_segment_header *header, uint32_t ready, uint64_t file_size) {
    if (ready == 0) {
        return LK_E_NOT_READY;
    }
    if (ready != LK_READY || lk_header_kind(header->magic) == LK_KIND_UNKNOWN) {
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

bool lk_header_same_run(const struct lk_segment_header *header,
                        const struct lk_segment_request *request) {
    size_t kept = kept_of_run_id(request);
    return header->run_id_size == kept && memcmp(header->run_id, request->run_id, kept) == 0;
}

enum lk_liveness lk_segment_owner(const struct lk_segment_header *header) {
    struct lk_process owner = {
        .pid = header->owner_pid,
        .start_ticks = header->owner_start_ticks,
        .pid_namespace = header->owner_pid_namespace,
    };
    memcpy(owner.boot_id, header->owner_boot_id, sizeof owner.boot_id);
    return lk_process_liveness(&owner);
}

int lk_segment_peek_header(const char *name, void *out, size_t size) {
    memset(out, 0, size);
    int fd = lk_file_open(name, O_RDONLY);
    if (fd < 0) {
        return lk_file_status(errno);
    }
    uint64_t file_size = 0;
    int status = lk_header_read(fd, out, size, &file_size);
    if (status == LK_OK) {
        const struct lk_segment_header *header = out;
        uint32_t ready = atomic_load_explicit(&header->ready, memory_order_relaxed);
        status = lk_header_check(header, ready, file_size);
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
    out->kind = lk_header_kind(header.magic);
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
