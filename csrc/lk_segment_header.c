/*
 * lk_segment_header.c: the header that all kinds of segments share: written, read, judged.
 *
 * Labels: none; [S1] of lk_segment.c hands the header over, here it is private or a copy.
 *
 * Who writes: a segment's creator before [S1], and whoever takes it over from a dead owner, under
 * the lock of its name. Who reads: everybody, as a copy that is judged before it is used.
 * If the owner dies: its lock tells, not the header.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment_header.h"

#include "lk_lock.h"
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

void lk_header_write_owner(struct lk_segment_header *header) {
    struct lk_process self = lk_process_self();
    header->owner_pid = self.pid;
    header->owner_pid_namespace = self.pid_namespace;
}

void lk_header_write(struct lk_segment_header *header, const struct lk_segment_request *request) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    header->magic = request->magic;
    header->version_major = LK_LAYOUT_MAJOR;
    header->version_minor = LK_LAYOUT_MINOR;
    header->header_size = LK_HEADER_SIZE;
    header->total_size = request->total_size;
    header->created_unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    lk_header_write_owner(header);
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

int lk_segment_peek(const char *name, void *out, size_t size, int *fd) {
    memset(out, 0, size);
    *fd = lk_file_open(name, O_RDONLY);
    if (*fd < 0) {
        return lk_file_status(errno);
    }
    uint64_t file_size = 0;
    int status = lk_header_read(*fd, out, size, &file_size);
    if (status == LK_OK) {
        const struct lk_segment_header *header = out;
        uint32_t ready = atomic_load_explicit(&header->ready, memory_order_relaxed);
        status = lk_header_check(header, ready, file_size);
    }
    return status;
}

int lk_segment_inspect(const char *name, struct lk_segment_info *out) {
    struct lk_segment_header header;
    struct stat info;
    int fd;
    memset(out, 0, sizeof *out);
    int status = lk_segment_peek(name, &header, sizeof header, &fd);
    if (fd >= 0) {
        out->owner = (uint32_t)lk_lock_holder(fd, LK_ROLE_OWNER);
        out->owner_uid = fstat(fd, &info) == 0 ? (uint32_t)info.st_uid : 0;
        close(fd);
    }
    if (status == LK_E_NOT_FOUND || status == LK_E_PERMISSION || status == LK_E_SYSTEM ||
        status == LK_E_NOT_READY || status == LK_E_WRONG_KIND || status == LK_E_UNTRUSTED) {
        return status;
    }
    /* The first 128 bytes mean the same in every version, so even a refusal names the owner. */
    out->kind = lk_header_kind(header.magic);
    out->version_major = header.version_major;
    out->version_minor = header.version_minor;
    out->flags = atomic_load_explicit(&header.flags, memory_order_relaxed);
    out->owner_pid = header.owner_pid;
    out->foreign = header.owner_pid_namespace != lk_process_self().pid_namespace;
    out->total_size = header.total_size;
    out->created_unix_ns = header.created_unix_ns;
    out->heartbeat_ns = atomic_load_explicit(&header.heartbeat_ns, memory_order_relaxed);
    if (header.run_id_size <= LK_RUN_ID_MAX) {
        out->run_id_size = header.run_id_size;
        memcpy(out->run_id, header.run_id, header.run_id_size);
    }
    return status;
}
