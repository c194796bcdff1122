/*
 * Races for a name, made to happen: the linker puts this file's functions in front of the two calls
 * between which another process could act (CMakeLists.txt, --wrap).
 */
#include "check.h"
#include "lk_layout.h"
#include "lk_lock.h"
#include "lk_segment.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

int __real_lk_lock_take(struct lk_lock *lock, uint32_t role);
int __wrap_lk_lock_take(struct lk_lock *lock, uint32_t role);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

static void (*before_the_name_is_locked)(void);
static struct lk_segment_header *abandoned;
static int unlinked;
static struct lk_frame_config config;
static char run[64];
static lk_frame_writer *successor;

int __wrap_lk_lock_take(struct lk_lock *lock, uint32_t role) {
    void (*act)(void) = before_the_name_is_locked;
    if (role == LK_ROLE_NAME && act != NULL) {
        before_the_name_is_locked = NULL;
        act();
    }
    return __real_lk_lock_take(lock, role);
}

int __wrap_unlink(const char *path) {
    if (abandoned != NULL) {
        CHECK((atomic_load(&abandoned->flags) & LK_FLAG_INVALIDATED) == 0);
        unlinked++;
    }
    return __real_unlink(path);
}

static void replace_the_dead_one(void) {
    CHECK_STATUS(LK_OK, lk_frame_create(&successor, run, strlen(run), &config));
}

/* Two see the same orphan. The second has opened it when the first has already replaced it. */
static void a_reclaimer_that_comes_late_leaves_the_successor_alone(void) {
    char name[160];
    struct lk_segment_info info;
    fresh_run(run);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lk_frame_writer *writer;
        CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
        kill(getpid(), SIGKILL);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    before_the_name_is_locked = replace_the_dead_one;
    CHECK_STATUS(LK_OK, lk_segment_reclaim(name, 0));
    CHECK(successor != NULL);
    CHECK_STATUS(LK_OK, lk_segment_inspect(name, &info));
    CHECK(info.owner == LK_ALIVE && (info.flags & LK_FLAG_INVALIDATED) == 0);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(successor));
    lk_frame_writer_free(successor);
}

/* Once a segment is invalidated, a successor may take its name: so the name goes first. */
static void a_process_that_is_terminated_removes_its_name_before_it_invalidates(void) {
    lk_frame_writer *writer;
    lk_segment *segment;
    void *pixels;
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_writer_view(writer, 0, &segment, &pixels));
    abandoned = lk_segment_base(segment);
    lk_segment_abandon_owned();
    CHECK(unlinked == 1);
    CHECK((atomic_load(&abandoned->flags) & LK_FLAG_INVALIDATED) != 0);
    abandoned = NULL;
    lk_segment_release(segment);
    lk_frame_writer_free(writer);
}

int main(void) {
    config = small_rgb(2);
    a_reclaimer_that_comes_late_leaves_the_successor_alone();
    a_process_that_is_terminated_removes_its_name_before_it_invalidates();
    return 0;
}
