/*
 * Segments between processes: a live owner is respected, a killed one is replaced and its readers
 * follow, a forked handle refuses, SIGTERM, SIGHUP and SIGINT leave nothing, a truncated file is an
 * error and no crash.
 */
#include "check.h"
#include "lk_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct lk_frame_config config;
static uint8_t frame[SMALL_SIZE];
static uint8_t got[SMALL_SIZE];

static lk_frame_writer *open_writer(const char *run) {
    lk_frame_writer *writer;
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    return writer;
}

static void end(lk_frame_writer *writer) {
    CHECK_STATUS(LK_OK, lk_frame_writer_close(writer));
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

static int name_exists(const char *run) {
    struct lk_segment_info info;
    char name[160];
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    return lk_segment_inspect(name, &info) != LK_E_NOT_FOUND;
}

static int open_file(const char *run) {
    char path[200] = "/";
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), path + 1, 160));
    int fd = shm_open(path, O_RDWR, 0600);
    CHECK(fd >= 0);
    return fd;
}

/* A child that publishes one frame, says so, and then waits for its end. The tests themselves may
 * run where SIGINT is ignored, so what the child does with it is said. */
static pid_t start_writer_with(const char *run, uint64_t value, void (*on_interrupt)(int)) {
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGINT, on_interrupt);
        lk_process_protect();
        lk_frame_writer *writer = open_writer(run);
        paint(frame, sizeof frame, value);
        CHECK_STATUS(1, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
        CHECK(write(ready[1], "x", 1) == 1);
        for (;;) {
            pause();
        }
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static pid_t start_writer(const char *run, uint64_t value) {
    return start_writer_with(run, value, SIG_DFL);
}

static void stop(pid_t child, int signal_number) {
    int status;
    kill(child, signal_number);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
}

static void a_live_owner_is_respected_and_a_killed_one_replaced(void) {
    char run[64];
    fresh_run(run);
    pid_t child = start_writer(run, 41);
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    struct lk_frame_info info;
    CHECK_STATUS(LK_E_EXISTS, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK_STATUS(LK_ALIVE, lk_frame_writer_liveness(reader));
    stop(child, SIGKILL);
    CHECK_STATUS(LK_DEAD, lk_frame_writer_liveness(reader));
    CHECK_STATUS(1, lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info));
    CHECK(is_painted(got, sizeof got, 41));
    writer = open_writer(run);
    paint(frame, sizeof frame, 42);
    CHECK_STATUS(1, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    struct lk_frame_config found;
    CHECK_STATUS(LK_E_MOVED, lk_frame_wait(reader, UINT64_C(60000000000), LK_WAIT_HYBRID));
    CHECK_STATUS(LK_E_MOVED, lk_frame_read(reader, 0, got, sizeof got, NULL, 0, &info));
    CHECK_STATUS(LK_OK, lk_frame_reader_config(reader, &found));
    CHECK(memcmp(&found, &config, sizeof config) == 0);
    CHECK_STATUS(1, lk_frame_read(reader, LK_FRAME_FRESH, got, sizeof got, NULL, 0, &info));
    CHECK(is_painted(got, sizeof got, 42));
    struct lk_frame_stats stats;
    CHECK_STATUS(LK_OK, lk_frame_reader_stats(reader, &stats));
    CHECK(stats.reattached == 1);
    /* With the segment comes its owner: the dead one is not asked about any more.
     */
    CHECK_STATUS(LK_ALIVE, lk_frame_writer_liveness(reader));
    lk_frame_reader_free(reader);
    end(writer);
    CHECK(!name_exists(run));
}

static void a_reader_that_followed_notices_the_death_of_the_second_writer(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *first = open_writer(run);
    lk_frame_reader *reader;
    struct lk_frame_config found;
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    end(first);
    pid_t second = start_writer(run, 7);
    CHECK_STATUS(LK_E_MOVED, lk_frame_wait(reader, UINT64_C(60000000000), LK_WAIT_HYBRID));
    CHECK_STATUS(LK_OK, lk_frame_reader_config(reader, &found));
    CHECK_STATUS(LK_ALIVE, lk_frame_writer_liveness(reader));
    /* The first writer was this process, which lives on: only the second one's end counts. */
    stop(second, SIGKILL);
    CHECK_STATUS(LK_DEAD, lk_frame_writer_liveness(reader));
    lk_frame_reader_free(reader);
    end(open_writer(run));
    CHECK(!name_exists(run));
}

static void a_zombie_counts_as_dead(void) {
    char run[64];
    fresh_run(run);
    pid_t child = start_writer(run, 1);
    kill(child, SIGKILL);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    end(open_writer(run)); /* the child is not reaped yet, and its segment is replaced */
    CHECK(waitpid(child, NULL, 0) == child);
}

static void termination_leaves_nothing_behind(void) {
    const int signals[] = {SIGTERM, SIGHUP, SIGINT};
    for (int i = 0; i < 3; i++) {
        char run[64];
        fresh_run(run);
        pid_t child = start_writer(run, 1);
        lk_frame_reader *reader;
        CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
        stop(child, signals[i]);
        CHECK(!name_exists(run));
        CHECK_STATUS(LK_DEAD, lk_frame_writer_liveness(reader));
        lk_frame_reader_free(reader);
    }
}

static void an_ignored_interrupt_stays_ignored(void) {
    char run[64];
    fresh_run(run);
    pid_t child = start_writer_with(run, 1, SIG_IGN);
    kill(child, SIGINT);
    stop(child, SIGTERM); /* it was still there to be terminated */
    CHECK(!name_exists(run));
}

static void exit_with_its_number(int signal_number) {
    _exit(signal_number);
}

static void a_handler_of_the_program_is_left_alone(void) {
    char run[64];
    fresh_run(run);
    int status;
    pid_t child = start_writer_with(run, 1, exit_with_its_number);
    kill(child, SIGINT);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == SIGINT);
    CHECK(name_exists(run)); /* cleaning up was the handler's to do */
    end(open_writer(run));
}

static void a_forked_child_is_refused_and_harms_nobody(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run);
    lk_frame_reader *reader;
    struct lk_frame_info info;
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_STATUS(LK_E_FORKED, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
        CHECK_STATUS(LK_E_FORKED, lk_frame_read(reader, 0, got, sizeof got, NULL, 0, &info));
        CHECK_STATUS(LK_E_FORKED, lk_frame_writer_unlink(writer));
        lk_frame_reader_free(reader);
        lk_frame_writer_free(writer);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_STATUS(1, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    CHECK_STATUS(1, lk_frame_read(reader, LK_FRAME_FRESH, got, sizeof got, NULL, 0, &info));
    lk_frame_reader_free(reader);
    end(writer);
}

static void a_truncated_segment_is_an_error_not_a_crash(void) {
    char run[64];
    fresh_run(run);
    lk_process_protect();
    lk_frame_writer *writer = open_writer(run);
    lk_frame_reader *reader;
    lk_frame_reader *late;
    struct lk_frame_info info;
    CHECK_STATUS(1, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 900000000, NULL));
    int fd = open_file(run);
    CHECK(ftruncate(fd, 0) == 0);
    CHECK_STATUS(LK_E_TRUNCATED, lk_frame_read(reader, 0, got, sizeof got, NULL, 0, &info));
    CHECK_STATUS(LK_E_TRUNCATED, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    CHECK_STATUS(LK_E_NOT_READY, lk_frame_attach(&late, run, strlen(run), 0, NULL));
    CHECK(ftruncate(fd, 100) == 0);
    CHECK_STATUS(LK_E_TRUNCATED, lk_frame_attach(&late, run, strlen(run), 0, NULL));
    close(fd);
    lk_frame_writer *second = open_writer(run); /* nobody can use what is left */
    CHECK_STATUS(1, lk_frame_publish(second, frame, sizeof frame, NULL, 0));
    pause_ms(25);
    struct lk_frame_config found;
    CHECK_STATUS(LK_E_MOVED, lk_frame_read(reader, 0, got, sizeof got, NULL, 0, &info));
    CHECK_STATUS(LK_OK, lk_frame_reader_config(reader, &found));
    CHECK_STATUS(1, lk_frame_read(reader, 0, got, sizeof got, NULL, 0, &info));
    lk_frame_reader_free(reader);
    lk_frame_writer_close(writer);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer)); /* must not remove its successor */
    CHECK(name_exists(run));
    lk_frame_writer_free(writer);
    end(second);
}

static void each_refusal_has_its_own_status(void) {
    char run[64];
    fresh_run(run);
    lk_frame_writer *writer = open_writer(run);
    lk_frame_writer *other;
    lk_frame_reader *reader;
    int fd = open_file(run);
    struct lk_frame_header *header =
        mmap(NULL, sizeof *header, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(header != MAP_FAILED);
    close(fd);

    atomic_store(&header->segment.ready, 0);
    CHECK_STATUS(LK_E_NOT_READY, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    atomic_store(&header->segment.ready, 7);
    CHECK_STATUS(LK_E_WRONG_KIND, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    atomic_store(&header->segment.ready, LK_READY);
    header->segment.magic ^= 1;
    CHECK_STATUS(LK_E_WRONG_KIND, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK_STATUS(LK_E_WRONG_KIND, lk_frame_create(&other, run, strlen(run), &config));
    header->segment.magic ^= 1;
    header->segment.version_major++;
    CHECK_STATUS(LK_E_WRONG_VERSION, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    header->segment.version_major--;
    header->segment.total_size += 4096;
    CHECK_STATUS(LK_E_TRUNCATED, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    header->segment.total_size -= 4096;
    header->geometry.slot_stride += 64;
    CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    header->geometry.slot_stride -= 64;
    header->segment.version_minor++; /* a newer minor version stays readable */
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    lk_frame_reader_free(reader);
    munmap(header, sizeof *header);

    char name[160];
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    CHECK_STATUS(LK_E_EXISTS, lk_segment_reclaim(name, 0));
    CHECK_STATUS(LK_OK, lk_segment_reclaim(name, 1));
    CHECK_STATUS(LK_OK, lk_segment_reclaim(name, 0)); /* nothing there: nothing to do */
    CHECK_STATUS(LK_E_INVALIDATED, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    lk_frame_writer_free(writer);
}

int main(void) {
    config = small_rgb(3);
    a_live_owner_is_respected_and_a_killed_one_replaced();
    a_reader_that_followed_notices_the_death_of_the_second_writer();
    a_zombie_counts_as_dead();
    termination_leaves_nothing_behind();
    an_ignored_interrupt_stays_ignored();
    a_handler_of_the_program_is_left_alone();
    a_forked_child_is_refused_and_harms_nobody();
    a_truncated_segment_is_an_error_not_a_crash();
    each_refusal_has_its_own_status();
    return 0;
}
