/*
 * One writer and several readers at full speed, in threads that share one mapping each way. Frames
 * are self-checking, so a mix of two is seen; sequence numbers must never go back. A small ring
 * makes the writer lap its readers all the time.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define FRAMES 200000
#define READERS 2

static char run[64];
static _Atomic int done;

static void *write_frames(void *unused) {
    (void)unused;
    lk_frame_writer *writer;
    struct lk_frame_config config = small_rgb(2);
    uint8_t frame[SMALL_SIZE];
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    for (uint64_t seq = 1; seq <= FRAMES; seq++) {
        paint(frame, sizeof frame, seq);
        double x = (double)seq;
        CHECK_STATUS(seq, lk_frame_publish_metrics(writer, frame, sizeof frame, &seq, sizeof seq, x,
                                                   2 * x, 3 * x));
    }
    atomic_store_explicit(&done, 1, memory_order_release);
    pause_ms(20);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
    return NULL;
}

static void *read_frames(void *choice) {
    lk_frame_reader *reader;
    uint8_t got[SMALL_SIZE];
    uint64_t metadata[5];
    struct lk_frame_info info;
    uint64_t last = 0;
    int status;
    while ((status = lk_frame_attach(&reader, run, strlen(run), 900000000, NULL)) != LK_OK) {
        CHECK(status == LK_E_NOT_FOUND || status == LK_E_NOT_READY);
    }
    while (!atomic_load_explicit(&done, memory_order_acquire)) {
        int64_t seq = lk_frame_read(reader, *(int *)choice, got, sizeof got, metadata,
                                    sizeof metadata, &info);
        CHECK(seq >= 0);
        struct lk_frame_metrics now;
        if (lk_frame_metrics(reader, &now) == 1) {
            CHECK(now.rolling_return == 2 * now.last_reward);
            CHECK(now.step_rate_hz == 3 * now.last_reward);
        }
        if (seq == 0) {
            continue;
        }
        CHECK((uint64_t)seq >= last);
        last = (uint64_t)seq;
        CHECK(is_painted(got, sizeof got, last));
        CHECK(info.metrics.last_reward == (double)last);
        CHECK(info.metrics.step_rate_hz == 3 * (double)last);
        CHECK(info.metadata_size == 8 && metadata[0] == last);
    }
    lk_frame_reader_free(reader);
    return NULL;
}

int main(void) {
    fresh_run(run);
    pthread_t writer;
    pthread_t readers[READERS];
    int choices[READERS] = {LK_FRAME_FRESH, LK_FRAME_NEXT};
    CHECK(pthread_create(&writer, NULL, write_frames, NULL) == 0);
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&readers[i], NULL, read_frames, &choices[i]) == 0);
    }
    pthread_join(writer, NULL);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
    }
    return 0;
}
