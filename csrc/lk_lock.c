/*
 * lk_lock.c: locks on bytes of a segment's file.
 *
 * Labels: none; the kernel decides, and lk_lock.h says in which order.
 *
 * Who writes: the list of open locks is this process's own, under a mutex that fork() takes too, so
 * that no child is born between the opening of a descriptor and its entry in the list.
 * If the holder of a lock dies: the kernel closes its descriptors, and with them goes the lock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_lock.h"

#include "lk_segment_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#if !defined(F_OFD_SETLK)
#error "lanekit needs open-file-description locks: Linux 3.15 or POSIX.1-2024"
#endif

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lk_lock *open_locks;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&list_mutex);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&list_mutex);
}

/* The roles stay with the parent: a child that outlives it must not keep them alive. */
static void after_fork_in_child(void) {
    while (open_locks != NULL) {
        struct lk_lock *lock = open_locks;
        open_locks = lock->next;
        close(lock->fd);
        lock->fd = -1;
    }
    pthread_mutex_unlock(&list_mutex);
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int lk_lock_open(struct lk_lock *lock, const char *name, int flags) {
    pthread_once(&watch_once, watch_forks);
    pthread_mutex_lock(&list_mutex);
    lock->fd = lk_file_open(name, flags);
    int saved = errno;
    if (lock->fd >= 0) {
        lock->previous = NULL;
        lock->next = open_locks;
        if (open_locks != NULL) {
            open_locks->previous = lock;
        }
        open_locks = lock;
    }
    pthread_mutex_unlock(&list_mutex);
    errno = saved;
    return lock->fd >= 0 ? 0 : -1;
}

void lk_lock_close(struct lk_lock *lock) {
    int saved = errno;
    pthread_mutex_lock(&list_mutex);
    if (lock->fd >= 0) {
        if (lock->previous != NULL) {
            lock->previous->next = lock->next;
        } else {
            open_locks = lock->next;
        }
        if (lock->next != NULL) {
            lock->next->previous = lock->previous;
        }
        close(lock->fd);
        lock->fd = -1;
    }
    pthread_mutex_unlock(&list_mutex);
    errno = saved;
}

static struct flock byte_of(uint32_t role, short type) {
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)role, .l_len = 1, .l_pid = 0};
}

int lk_lock_take(struct lk_lock *lock, uint32_t role) {
    struct flock byte = byte_of(role, F_WRLCK);
    if (fcntl(lock->fd, F_OFD_SETLK, &byte) == 0) {
        return LK_OK;
    }
    return errno == EAGAIN || errno == EACCES ? LK_E_TAKEN : LK_E_SYSTEM;
}

int lk_lock_take_within(struct lk_lock *lock, uint32_t role, int limit_ms) {
    int status = lk_lock_take(lock, role);
    while (status == LK_E_TAKEN && limit_ms-- > 0) {
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 1000000};
        nanosleep(&pause, NULL);
        status = lk_lock_take(lock, role);
    }
    return status;
}

void lk_lock_drop(struct lk_lock *lock, uint32_t role) {
    int saved = errno;
    struct flock byte = byte_of(role, F_UNLCK);
    fcntl(lock->fd, F_OFD_SETLK, &byte);
    errno = saved;
}

enum lk_liveness lk_lock_holder(int fd, uint32_t role) {
    struct flock byte = byte_of(role, F_WRLCK);
    if (fcntl(fd, F_OFD_GETLK, &byte) != 0) {
        return LK_UNKNOWN;
    }
    return byte.l_type == F_UNLCK ? LK_DEAD : LK_ALIVE;
}
