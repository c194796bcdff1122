/*
 * Two threads in one writer: each call either works alone or answers LK_E_CONCURRENT, and what is
 * published stays whole. A third one that only looks is never refused, and never in the way.
 * Closing under a running reader, or under one that looks, ends it with LK_E_CLOSED.
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define CALLS 50000

static lk_frame_writer *writer;
static _Atomic int refused;
static _Atomic int published;

static void *hammer(void *value) {
    uint8_t frame[SMALL_SIZE];
    memset(frame, *(int *)value, sizeof frame);
    for (int i = 0; i < CALLS; i++) {
        int64_t seq = lk_frame_publish(writer, frame, sizeof frame, NULL, 0);
        if (seq == LK_E_CONCURRENT) {
            atomic_fetch_add(&refused, 1);
        } else {
            CHECK(seq > 0);
            atomic_fetch_add(&published, 1);
        }
    }
    return NULL;
}

static void *read_until_closed(void *handle) {
    lk_frame_reader *reader = handle;
    uint8_t got[SMALL_SIZE];
    struct lk_frame_info info;
    for (;;) {
        int64_t seq = lk_frame_read(reader, LK_FRAME_NEWEST, got, sizeof got, NULL, 0, &info);
        if (seq == LK_E_CLOSED) {
            return NULL;
        }
        CHECK(seq >= 0);
        for (size_t i = 1; seq > 0 && i < SMALL_SIZE; i++) {
            CHECK(got[i] == got[0]);
        }
    }
}

static void *look_until_closed(void *handle) {
    lk_frame_writer *looked_at = handle;
    int status;
    do {
        status = lk_frame_watched(looked_at);
        CHECK(status == 0 || status == LK_E_CLOSED);
        if (status == 0) {
            status = lk_frame_heartbeat(looked_at);
            CHECK(status == LK_OK || status == LK_E_CLOSED);
        }
    } while (status != LK_E_CLOSED);
    return NULL;
}

int main(void) {
    char run[64];
    fresh_run(run);
    struct lk_frame_config config = small_rgb(4);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    lk_frame_reader *reader;
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    pthread_t threads[2];
    pthread_t watcher;
    pthread_t looker;
    int values[2] = {11, 222};
    CHECK(pthread_create(&watcher, NULL, read_until_closed, reader) == 0);
    CHECK(pthread_create(&looker, NULL, look_until_closed, writer) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, hammer, &values[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    lk_frame_reader_close(reader);
    pthread_join(watcher, NULL);
    CHECK(refused + published == 2 * CALLS);
    struct lk_frame_status status;
    char name[160];
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    CHECK_STATUS(LK_OK, lk_frame_inspect(name, &status));
    CHECK(status.head == (uint64_t)published);
    lk_frame_reader_free(reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    CHECK_STATUS(LK_OK, lk_frame_writer_close(writer)); /* after the last look at its memory */
    pthread_join(looker, NULL);
    lk_frame_writer_free(writer);
    return 0;
}
