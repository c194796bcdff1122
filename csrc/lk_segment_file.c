/*
 * lk_segment_file.c: the file behind a segment's name, its lock and its identity.
 *
 * Labels: none; what is decided here is decided by the kernel.
 *
 * Who writes: whoever creates, takes over or removes a segment, under the file's lock.
 * Removing a name is only done under that lock, after checking that the name still means the
 * locked file: so two processes that both see an orphan can not remove each other's successor.
 * If the holder of the lock dies: the kernel drops it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int lk_file_status(int error) {
    switch (error) {
    case ENOENT: return LK_E_NOT_FOUND;
    case EACCES:
    case EPERM: return LK_E_PERMISSION;
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
    return shm_open(slashed, flags | O_CLOEXEC | O_NONBLOCK, 0600);
}

void lk_file_unlink(const char *name) {
    char slashed[LK_NAME_SIZE + 1];
    snprintf(slashed, sizeof slashed, "/%s", name);
    shm_unlink(slashed);
}

void lk_file_path(const char *name, char path[LK_FILE_PATH_SIZE]) {
    snprintf(path, LK_FILE_PATH_SIZE, LK_FILE_DIRECTORY "%s", name);
}

int lk_file_identify(int fd, const char *name, struct lk_segment_id *id, uint64_t *size) {
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

bool lk_file_is_named(const struct lk_segment_id *id) {
    /* By path, which needs no file descriptor: a process that has run out of them must not
     * conclude that the name has moved on. */
    char path[LK_FILE_PATH_SIZE];
    struct stat info;
    lk_file_path(id->name, path);
    return stat(path, &info) == 0 && info.st_dev == id->device && info.st_ino == id->inode;
}

bool lk_file_lock(int fd, int patience_ms) {
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
void lk_file_unlock_and_close(int fd) {
    int saved = errno;
    flock(fd, LOCK_UN);
    close(fd);
    errno = saved;
}

int lk_segment_unlink(const struct lk_segment_id *id) {
    int fd = lk_file_open(id->name, O_RDONLY);
    if (fd < 0) {
        return errno == ENOENT ? LK_OK : lk_file_status(errno);
    }
    /* Removal happens under the file's lock; see the head of this file. Whoever holds it longer
     * than a reclaimer could is stuck, and must not keep the owner from removing what it owns. */
    lk_file_lock(fd, 100);
    struct stat info;
    if (fstat(fd, &info) == 0 && info.st_dev == id->device && info.st_ino == id->inode &&
        lk_file_is_named(id)) {
        lk_file_unlink(id->name);
    }
    lk_file_unlock_and_close(fd);
    return LK_OK;
}
