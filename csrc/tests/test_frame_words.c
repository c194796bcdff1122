/*
 * What a reader makes of a slot's word: a writer that is merely ahead of it is never called
 * corrupt, whatever the capacity, and a word that no writer can have left is.
 *
 * The states between two stores of a writer are built by hand; then a real writer is raced.
 */
#include "check.h"

#include "lk_layout.h"
#include "lk_platform.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Under ThreadSanitizer a frame is copied word by word. */
enum { RACED_READS = LK_THREAD_SANITIZER ? 10000 : 200000 };
#define HEAD UINT64_C(7)

struct lane {
    char run[64];
    lk_frame_writer *writer;
    struct lk_frame_config config;
    uint8_t *base;
    size_t size;
};

static void open_lane(struct lane *lane, uint32_t capacity) {
    char name[160];
    char slashed[161];
    uint8_t frame[SMALL_SIZE];
    fresh_run(lane->run);
    lane->config = small_rgb(capacity);
    size_t length = strlen(lane->run);
    CHECK_STATUS(LK_OK, lk_frame_create(&lane->writer, lane->run, length, &lane->config));
    for (uint64_t seq = 1; seq <= HEAD; seq++) {
        paint(frame, sizeof frame, seq);
        CHECK_STATUS(seq, lk_frame_publish(lane->writer, frame, sizeof frame, NULL, 0));
    }
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, lane->run, length, name, sizeof name));
    snprintf(slashed, sizeof slashed, "/%s", name);
    int fd = shm_open(slashed, O_RDWR, 0);
    CHECK(fd >= 0);
    lane->size = (size_t)lk_frame_segment_size(&lane->config);
    lane->base = mmap(NULL, lane->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(lane->base != MAP_FAILED);
    close(fd);
}

static void close_lane(struct lane *lane) {
    munmap(lane->base, lane->size);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(lane->writer));
    lk_frame_writer_free(lane->writer);
}

static _Atomic uint64_t *word_of(const struct lane *lane, uint64_t seq) {
    size_t stride = (lane->size - LK_HEADER_SIZE) / lane->config.capacity;
    size_t slot = (size_t)((seq - 1) % lane->config.capacity);
    return (_Atomic uint64_t *)(void *)(lane->base + LK_HEADER_SIZE + slot * stride);
}

/* What a new reader gets of the newest frame. */
static int64_t newest(const struct lane *lane, int choice) {
    lk_frame_reader *reader;
    uint8_t got[SMALL_SIZE];
    struct lk_frame_info info = {.seq = 99, .metadata_size = 99};
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, lane->run, strlen(lane->run), 0, NULL));
    int64_t seq = lk_frame_read(reader, choice, got, sizeof got, NULL, 0, &info);
    CHECK(seq > 0 ? info.seq == (uint64_t)seq && info.metadata_size == -1 : info.seq == 0);
    lk_frame_reader_free(reader);
    return seq;
}

/*
 * While the head names frame HEAD, a writer may be inside the next frame, whose slot is the same in
 * a ring of one; or it has finished that one and is about to announce it. And where stores become
 * visible out of order it may be inside the frame after that, announced though not yet seen so.
 */
static bool honest(uint64_t word, uint32_t capacity) {
    switch (word) {
    case 2 * HEAD: return true;
    case 2 * (HEAD + 1) - 1:
    case 2 * (HEAD + 1): return capacity == 1;
    case 2 * (HEAD + 2) - 1: return capacity <= 2;
    default: return false;
    }
}

static void check_word(struct lane *lane, uint64_t word) {
    atomic_store_explicit(word_of(lane, HEAD), word, memory_order_relaxed);
    int64_t expected = honest(word, lane->config.capacity) ? 0 : LK_E_CORRUPT;
    if (word == 2 * HEAD) {
        expected = (int64_t)HEAD;
    }
    CHECK_STATUS(expected, newest(lane, LK_FRAME_NEWEST));
    CHECK_STATUS(expected, newest(lane, LK_FRAME_FRESH));
    if (lane->config.capacity == 1) { /* elsewhere an older frame comes first */
        CHECK_STATUS(expected, newest(lane, LK_FRAME_NEXT));
    }
}

static void every_word_that_a_writer_can_leave_is_explained_and_no_other(void) {
    static const uint64_t far[] = {
        1000,           2001,      UINT64_C(1) << 32, UINT64_C(1) << 62, UINT64_C(1) << 63,
        UINT64_MAX - 1, UINT64_MAX};
    for (uint32_t capacity = 1; capacity <= 5; capacity++) {
        struct lane lane;
        open_lane(&lane, capacity);
        for (uint64_t word = 0; word <= 2 * (HEAD + 12); word++) {
            check_word(&lane, word);
        }
        for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
            check_word(&lane, far[i]);
        }
        check_word(&lane, 2 * HEAD);
        close_lane(&lane);
    }
}

/* A reader that lags far behind meets later frames in the slot of the one it wants. */
static void a_frame_that_was_lapped_many_times_is_not_corrupt(void) {
    struct lane lane;
    lk_frame_reader *reader;
    uint8_t frame[SMALL_SIZE];
    struct lk_frame_info info;
    open_lane(&lane, 3);
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, lane.run, strlen(lane.run), 0, NULL));
    CHECK_STATUS(HEAD - 2,
                 lk_frame_read(reader, LK_FRAME_NEXT, frame, sizeof frame, NULL, 0, &info));
    for (int i = 0; i < 30; i++) {
        CHECK(lk_frame_publish(lane.writer, frame, sizeof frame, NULL, 0) > 0);
    }
    CHECK(lk_frame_read(reader, LK_FRAME_NEXT, frame, sizeof frame, NULL, 0, &info) >
          (int64_t)HEAD);
    lk_frame_reader_free(reader);
    close_lane(&lane);
}

/* A process that publishes as fast as it can, until it is killed. */
static pid_t publish_flat_out(const char *run, const struct lk_frame_config *config, int ready) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        static uint8_t frame[64 * 64 * 3];
        static const uint8_t note[40];
        lk_frame_writer *writer;
        CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), config));
        CHECK(write(ready, "r", 1) == 1);
        for (double n = 1;; n++) {
            CHECK(lk_frame_publish_metrics(writer, frame, sizeof frame, note, sizeof note, n, n,
                                           n) > 0);
        }
    }
    return pid;
}

static void a_flat_out_writer_is_never_called_corrupt(uint32_t capacity) {
    static uint8_t got[64 * 64 * 3];
    char run[64];
    char name[160];
    uint8_t note[40];
    int ready[2];
    char token;
    struct lk_frame_info info;
    struct lk_frame_config config = small_rgb(capacity);
    config.width = config.height = 64;
    fresh_run(run);
    CHECK(pipe(ready) == 0);
    pid_t writer = publish_flat_out(run, &config, ready[1]);
    CHECK(read(ready[0], &token, 1) == 1);
    lk_frame_reader *reader;
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    for (int i = 0; i < RACED_READS; i++) {
        int64_t seq = lk_frame_read(reader, i % 3, got, sizeof got, note, sizeof note, &info);
        if (seq < 0) {
            kill(writer, SIGKILL);
            CHECK_STATUS(0, seq);
        }
    }
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    lk_frame_reader_free(reader);
    close(ready[0]);
    close(ready[1]);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    CHECK_STATUS(LK_OK, lk_segment_reclaim(name, 1));
}

int main(void) {
    every_word_that_a_writer_can_leave_is_explained_and_no_other();
    a_frame_that_was_lapped_many_times_is_not_corrupt();
    for (uint32_t capacity = 1; capacity <= 3; capacity++) {
        a_flat_out_writer_is_never_called_corrupt(capacity);
    }
    return 0;
}
