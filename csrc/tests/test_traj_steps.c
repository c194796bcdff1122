/*
 * Death at any instruction. A child is single-stepped into a put, or into a release, and killed
 * after so many instructions, then after some more, and so on to the end. After each death the
 * record is there completely or not at all, a record whose release had counted does not come again,
 * and the ring is taken over by the next child.
 *
 * Needs ptrace; where that is forbidden or emulated the test says so and passes.
 */
#include "traj_check.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* Stepping to each instruction anew takes a minute on a busy machine. So each run does one in
 * seven, beginning with another one each time, and all of them if it is started with the word
 * "every". Instrumented code has many times the instructions. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRIDE 997
#else
#define STRIDE 7
#endif

static long stride = STRIDE;
static char run[64];

static void be_traced(void) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(77);
    }
    raise(SIGSTOP);
}

/* Let a stopped child do so many instructions, then kill it. False: it had ended before. */
static bool step_and_kill(pid_t child, long instructions) {
    int status;
    for (long i = 0; i < instructions; i++) {
        CHECK(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status)) {
            CHECK(WEXITSTATUS(status) == 0);
            return false;
        }
    }
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return true;
}

/* Wait until the child has stopped itself. False: there is no ptrace here. */
static bool stopped(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSTOPPED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 77));
    return WIFSTOPPED(status);
}

static void put_one(uint32_t n) {
    static struct numbered record;
    lk_traj_writer *writer = open_producer(run); /* the ring of whoever died before */
    make_numbered(&record, 1, n, n % 10);
    be_traced();
    if (lk_traj_put(writer, record.arrays, record.metadata, sizeof record.metadata, 0) != 1) {
        _exit(1);
    }
    _exit(0);
}

static bool a_put_is_whole_or_was_never_there(void) {
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    struct lk_traj_record record;
    struct lk_traj_array arrays[FIELDS];
    uint32_t spoiled;
    uint32_t n = 0;
    uint32_t whole = 0;
    bool cut_short;
    long instructions = getpid() % 7 % stride;
    do {
        n++;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            put_one(n);
        }
        if (!stopped(child)) {
            end_lane(reader);
            return false;
        }
        cut_short = step_and_kill(child, instructions);
        int taken = lk_traj_take(reader, 1, &record, arrays, &spoiled);
        CHECK(taken == 0 || taken == 1);
        CHECK(taken == 1 || cut_short);
        if (taken == 1) {
            uint32_t found;
            CHECK(check_numbered(&record, arrays, &found) == 1 && found == n);
            CHECK(record.session == n && record.number == 1);
            CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
            whole++;
        }
        CHECK_STATUS(0, lk_traj_take(reader, 1, &record, arrays, &spoiled));
        instructions += stride;
    } while (cut_short);
    CHECK(n > 5 && whole >= 1 && whole < n);
    end_lane(reader);
    return true;
}

/* Become the consumer, take two records and release them, the second first if asked to. */
static void release_two(bool backwards) {
    lk_traj_reader *reader = open_reader(run, 1, 4096);
    struct lk_traj_record records[2];
    struct lk_traj_array arrays[2 * FIELDS];
    uint32_t spoiled;
    CHECK_STATUS(2, lk_traj_take(reader, 2, records, arrays, &spoiled));
    be_traced();
    if (lk_traj_release(reader, 0, records[backwards].ticket) != LK_OK ||
        lk_traj_release(reader, 0, records[!backwards].ticket) != LK_OK) {
        _exit(1);
    }
    _exit(0);
}

static void a_release_counts_or_does_not(bool backwards) {
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    struct lk_traj_record records[3];
    struct lk_traj_array arrays[3 * FIELDS];
    uint32_t spoiled;
    uint32_t seen[3] = {0};
    bool cut_short;
    long instructions = getpid() % 7 % stride;
    uint32_t n = 0;
    do {
        CHECK(put_numbered(writer, 1, n + 1, 20, 0) > 0);
        CHECK(put_numbered(writer, 1, n + 2, 20, 0) > 0);
        lk_traj_reader_leave(reader);
        lk_traj_reader_free(reader);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            release_two(backwards);
        }
        CHECK(stopped(child));
        cut_short = step_and_kill(child, instructions);
        reader = open_reader(run, 1, 4096); /* the successor */
        int left = lk_traj_take(reader, 3, records, arrays, &spoiled);
        CHECK(left >= 0 && left <= 2 && (left == 0 || cut_short));
        seen[left]++;
        for (int i = 0; i < left; i++) {
            uint32_t found;
            check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &found);
            /* Both, or the one that was to be released last, or none. */
            uint32_t expected = left == 2 ? n + 1 + (uint32_t)i : n + (backwards ? 1 : 2);
            CHECK(found == expected);
            CHECK_STATUS(LK_OK, lk_traj_release(reader, 0, records[i].ticket));
        }
        struct lk_traj_ring_status ring;
        CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
        CHECK(ring.depth_bytes == 0);
        n += 2;
        instructions += stride;
    } while (cut_short);
    CHECK(seen[2] > 0 && seen[0] > 0 && (stride > 7 || seen[1] > 0));
    lk_traj_writer_free(writer);
    end_lane(reader);
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "every") == 0) {
        stride = 1;
    }
    if (!a_put_is_whole_or_was_never_there()) {
        fprintf(stderr, "no ptrace here: nothing was tested\n");
        return 0;
    }
    a_release_counts_or_does_not(false);
    a_release_counts_or_does_not(true);
    return 0;
}
