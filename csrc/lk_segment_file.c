/*
 * lk_segment_file.c: the file behind a segment's name: opened, judged, removed.
 *
 * Labels: none; what is decided here is decided by the kernel.
 *
 * Who writes: whoever creates, takes over or removes a segment, with LK_ROLE_NAME of its file.
 * Removing a name is only done in that role, after checking that the name still means the locked
 * file: so two processes that both see an orphan cannot remove each other's successor.
 * Whom to trust: names are predictable, and everybody may put files into the directory. So a file
 * is judged by its owner and mode after it was opened, before anything in it is read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment_file.h"

#include "lk_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int lk_file_status(int error) {
    switch (error) {
    case ENOENT: return LK_E_NOT_FOUND;
    case EACCES:
    case EPERM: return LK_E_PERMISSION;
    case ELOOP: /* a symbolic link */
    case ENXIO: /* a socket */
    case EISDIR: return LK_E_UNTRUSTED;
    case ENOMEM:
    case ENOSPC: return LK_E_NO_SPACE;
    default: errno = error; return LK_E_SYSTEM;
    }
}

int lk_file_open(const char *name, int flags) {
    char slashed[LK_NAME_SIZE + 1];
    if (strlen(name) >= LK_NAME_SIZE || strchr(name, '/') != NULL) {
        errno = EINVAL;
        return -1;
    }
    snprintf(slashed, sizeof slashed, "/%s", name);
    /* Not blocking: somebody may have put a pipe there, which would hold us until a peer comes. */
    int fd = shm_open(slashed, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 && errno == EINVAL) {
        errno = EISDIR; /* what glibc makes of a directory; the name itself is fine */
    }
    return fd;
}

void lk_file_unlink(const char *name) {
    char slashed[LK_NAME_SIZE + 1];
    snprintf(slashed, sizeof slashed, "/%s", name);
    shm_unlink(slashed);
}

void lk_file_path(const char *name, char path[LK_FILE_PATH_SIZE]) {
    snprintf(path, LK_FILE_PATH_SIZE, LK_FILE_DIRECTORY "%s", name);
}

static bool trusted(const struct stat *info, const uint32_t *allow_uid) {
    if (!S_ISREG(info->st_mode)) {
        return false;
    }
    if (allow_uid != NULL && info->st_uid == (uid_t)*allow_uid) {
        return (info->st_mode & S_IWOTH) == 0;
    }
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int lk_file_identify(int fd, const char *name, const uint32_t *allow_uid, struct lk_segment_id *id,
                     uint64_t *size) {
    struct stat info;
    id->name[0] = '\0';
    id->device = 0;
    id->inode = 0;
    *size = 0;
    if (fstat(fd, &info) != 0) {
        return LK_E_SYSTEM;
    }
    if (!trusted(&info, allow_uid)) {
        return LK_E_UNTRUSTED;
    }
    snprintf(id->name, sizeof id->name, "%s", name);
    id->device = info.st_dev;
    id->inode = info.st_ino;
    *size = (uint64_t)info.st_size;
    return LK_OK;
}

bool lk_file_is_named(const struct lk_segment_id *id) {
    /* By path, which needs no file descriptor: a process that has run out of them must not
     * conclude that the name has moved on. */
    char path[LK_FILE_PATH_SIZE];
    struct stat info;
    lk_file_path(id->name, path);
    return lstat(path, &info) == 0 && info.st_dev == id->device && info.st_ino == id->inode;
}

bool lk_file_is_ours(const char *name) {
    char path[LK_FILE_PATH_SIZE];
    struct stat info;
    lk_file_path(name, path);
    return lstat(path, &info) == 0 && info.st_uid == geteuid();
}

int lk_segment_unlink(const struct lk_segment_id *id) {
    struct lk_lock lock;
    if (lk_lock_open(&lock, id->name, O_RDWR) != 0) {
        return errno == ENOENT ? LK_OK : lk_file_status(errno);
    }
    /* Whoever has this role for longer than a reclaimer could is stuck, and must not keep the
     * owner from removing what it owns. */
    lk_lock_take_within(&lock, LK_ROLE_NAME, 100);
    struct stat info;
    if (fstat(lock.fd, &info) == 0 && info.st_dev == id->device && info.st_ino == id->inode &&
        lk_file_is_named(id)) {
        lk_file_unlink(id->name);
    }
    lk_lock_close(&lock);
    return LK_OK;
}
