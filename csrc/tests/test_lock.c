/*
 * Roles: one holder at a time, also within a process; free at once when the holder dies, however it
 * was forked, mapped or copied before.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "check.h"
#include "lk_layout.h"
#include "lk_lock.h"
#include "lk_segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct lk_frame_config config;

static void segment_of(const char *run, char name[160]) {
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, 160));
}

static enum lk_liveness owner_of(const char *run) {
    struct lk_segment_info info;
    char name[160];
    segment_of(run, name);
    CHECK_STATUS(LK_OK, lk_segment_inspect(name, &info));
    return (enum lk_liveness)info.owner;
}

static void a_role_has_one_holder_at_a_time(void) {
    char run[64], name[160];
    struct lk_lock first, second;
    lk_frame_writer *writer;
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    segment_of(run, name);
    CHECK(lk_lock_open(&first, name, O_RDWR) == 0);
    CHECK(lk_lock_open(&second, name, O_RDWR) == 0);
    CHECK_STATUS(LK_OK, lk_lock_take(&first, LK_ROLE_CLIENT));
    CHECK_STATUS(LK_E_TAKEN, lk_lock_take(&second, LK_ROLE_CLIENT));
    CHECK_STATUS(LK_ALIVE, lk_lock_holder(second.fd, LK_ROLE_CLIENT));
    CHECK_STATUS(LK_DEAD, lk_lock_holder(second.fd, LK_ROLE_VIEWER));
    CHECK_STATUS(LK_OK, lk_lock_take(&second, LK_ROLE_VIEWER)); /* roles do not overlap */
    lk_lock_drop(&first, LK_ROLE_CLIENT);
    CHECK_STATUS(LK_OK, lk_lock_take(&second, LK_ROLE_CLIENT));
    CHECK_STATUS(LK_E_TAKEN, lk_lock_take_within(&first, LK_ROLE_CLIENT, 3));
    lk_lock_close(&second);
    lk_lock_close(&second); /* twice is once */
    CHECK_STATUS(LK_DEAD, lk_lock_holder(first.fd, LK_ROLE_CLIENT));
    CHECK_STATUS(LK_DEAD, lk_lock_holder(first.fd, LK_ROLE_VIEWER));
    CHECK_STATUS(LK_ALIVE, lk_lock_holder(first.fd, LK_ROLE_OWNER)); /* the writer's */
    lk_lock_close(&first);
    CHECK(lk_lock_open(&first, "lanekit-frame-none", O_RDWR) == -1);
    CHECK_STATUS(LK_UNKNOWN, lk_lock_holder(-1, LK_ROLE_OWNER));
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

/* A process owns a lane, forks twice, and is killed. Its children live on: one with the inherited
 * handle and its mapping, one that has freed the handle and opened a lane of its own. */
static void a_child_keeps_no_role_of_its_parent(void) {
    char run[64], other[64], name[160];
    int told[2], hold[2];
    char bytes[2];
    struct lk_segment_info info;
    fresh_run(run);
    fresh_run(other);
    CHECK(pipe(told) == 0 && pipe(hold) == 0);
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        lk_frame_writer *writer, *own;
        CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
        if (fork() == 0) {
            close(hold[1]);
            CHECK(write(told[1], "c", 1) == 1);
            _exit(read(hold[0], bytes, 1) != 0); /* until the test lets go */
        }
        if (fork() == 0) {
            close(hold[1]);
            CHECK_STATUS(LK_OK, lk_frame_create(&own, other, strlen(other), &config));
            CHECK_STATUS(LK_E_FORKED, lk_frame_invalidate(writer));
            lk_frame_writer_free(writer); /* must not close what is the child's own by now */
            CHECK_STATUS(LK_ALIVE, owner_of(other));
            CHECK_STATUS(LK_ALIVE, owner_of(run)); /* the parent's */
            CHECK(write(told[1], "c", 1) == 1);
            CHECK(read(hold[0], bytes, 1) == 0);
            CHECK_STATUS(LK_OK, lk_frame_writer_unlink(own));
            _exit(0);
        }
        for (;;) {
            pause();
        }
    }
    close(hold[0]);
    for (size_t got = 0; got < sizeof bytes; got++) {
        CHECK(read(told[0], bytes, 1) == 1);
    }
    CHECK_STATUS(LK_ALIVE, owner_of(run));
    kill(parent, SIGKILL);
    CHECK(waitpid(parent, NULL, 0) == parent);
    CHECK_STATUS(LK_DEAD, owner_of(run));
    CHECK_STATUS(LK_ALIVE, owner_of(other));
    close(hold[1]);
    close(told[0]);
    close(told[1]);
    lk_frame_writer *next;
    CHECK_STATUS(LK_OK, lk_frame_create(&next, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(next));
    lk_frame_writer_free(next);
    segment_of(other, name);
    while (lk_segment_inspect(name, &info) != LK_E_NOT_FOUND) {
        pause_ms(1); /* the child removes its own */
    }
}

/* One thread forks all the time while another opens lanes, until their process is killed. Its
 * children live on: none was born between the opening of a descriptor and the moment when fork knew
 * of it, so none keeps a lane's owner alive. */
#define LANES 100
static char runs[LANES][64];
static _Atomic int opened;
static int hold_children[2];

static void *fork_all_the_time(void *unused) {
    char byte;
    while (atomic_load(&opened) < LANES) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            close(hold_children[1]);
            _exit(read(hold_children[0], &byte, 1) != 0); /* until the test lets go */
        }
    }
    return unused;
}

static void no_child_is_born_with_a_role(void) {
    int told[2];
    char byte;
    for (int i = 0; i < LANES; i++) {
        fresh_run(runs[i]);
    }
    CHECK(pipe(told) == 0 && pipe(hold_children) == 0);
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, fork_all_the_time, NULL) == 0);
        for (int i = 0; i < LANES; i++) {
            lk_frame_writer *writer;
            CHECK_STATUS(LK_OK, lk_frame_create(&writer, runs[i], strlen(runs[i]), &config));
            atomic_store(&opened, i + 1);
        }
        pthread_join(thread, NULL);
        CHECK(write(told[1], "o", 1) == 1);
        for (;;) {
            pause();
        }
    }
    CHECK(read(told[0], &byte, 1) == 1);
    CHECK_STATUS(LK_ALIVE, owner_of(runs[0]));
    kill(parent, SIGKILL);
    CHECK(waitpid(parent, NULL, 0) == parent);
    for (int i = 0; i < LANES; i++) {
        char name[160];
        segment_of(runs[i], name);
        while (owner_of(runs[i]) != LK_DEAD) {
            pause_ms(1); /* the last child may not have come to closing its copies yet */
        }
        CHECK_STATUS(LK_OK, lk_segment_reclaim(name, 0));
    }
    close(hold_children[1]);
    close(hold_children[0]);
}

int main(void) {
    config = small_rgb(2);
    a_role_has_one_holder_at_a_time();
    a_child_keeps_no_role_of_its_parent();
    no_child_is_born_with_a_role();
    return 0;
}
