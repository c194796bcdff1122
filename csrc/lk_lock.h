/*
 * lk_lock.h: who has which role in a segment, told by locks that the kernel drops at death.
 *
 * Each role (enum lk_role in lk_layout.h) is one byte of the segment's file, and whoever has the
 * role holds an open-file-description lock (fcntl, F_OFD_SETLK) on that byte for as long as it
 * lives. The kernel knows the holder by the open file and not by a pid, so the answer is the same
 * in every pid, time and user namespace that shares the file system, and it needs no /proc.
 *
 * Two things keep a lock alive longer than its holder unless they are seen to: a mapping made from
 * the same open file, and a child that inherits the descriptor. So locks have an open file of their
 * own that is never mapped, and a forked child closes its copies at once.
 *
 * Order: taking a lock that another process gave up, by a call or by its death, happens after
 * everything that process did before. The kernel's own lock around the file's list of locks says
 * so; it is as good as a release and an acquire on a word of ours, and there is none.
 */
#ifndef LK_LOCK_H
#define LK_LOCK_H

#include "lanekit.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_lock {
    int fd; /* -1: closed, or closed for this process by a fork */
    struct lk_lock *previous;
    struct lk_lock *next;
};

/* Open a segment's file for its locks: 0, or -1 and errno. The struct must stay where it is. */
int lk_lock_open(struct lk_lock *lock, const char *name, int flags);

/* Give up all roles. May be called twice. */
void lk_lock_close(struct lk_lock *lock);

/* LK_OK, LK_E_TAKEN while another open file has the role, or LK_E_SYSTEM. */
int lk_lock_take(struct lk_lock *lock, uint32_t role);

/* The same, but try for about this many milliseconds. */
int lk_lock_take_within(struct lk_lock *lock, uint32_t role, int limit_ms);
void lk_lock_drop(struct lk_lock *lock, uint32_t role);

/* Whether somebody has the role: LK_ALIVE, LK_DEAD, or LK_UNKNOWN where the system cannot tell.
 * A role that was taken through this very descriptor counts as free. */
enum lk_liveness lk_lock_holder(int fd, uint32_t role);

#endif
