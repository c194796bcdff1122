/* check.h: what the small test programs share: a check that ends the test, and unique run ids. */
#ifndef LK_TESTS_CHECK_H
#define LK_TESTS_CHECK_H

#include "lanekit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

#define CHECK_STATUS(expected, call)                                                            \
    do {                                                                                        \
        long long got_ = (long long)(call);                                                     \
        if (got_ != (long long)(expected)) {                                                    \
            fprintf(stderr, "%s:%d: %s answered %lld (%s), expected %s\n", __FILE__, __LINE__,  \
                    #call, got_, got_ < 0 ? lk_status_name((int)got_) : "a result", #expected); \
            abort();                                                                            \
        }                                                                                       \
    } while (0)

/* A run id no other test and no earlier run of this one uses. */
static inline const char *fresh_run(char out[64]) {
    static int counter;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(out, 64, "ctest-%d-%lld-%d", (int)getpid(), (long long)now.tv_nsec, counter++);
    return out;
}

static inline struct lk_frame_config small_rgb(uint32_t capacity) {
    return (struct lk_frame_config){.width = 16,
                                    .height = 8,
                                    .channels = 3,
                                    .pixel_format = LK_PIXEL_RGB,
                                    .capacity = capacity,
                                    .metadata_size = 40};
}

#define SMALL_SIZE ((size_t)16 * 8 * 3)

/* Every byte of a frame derives from its number, so that any mix of two frames shows. */
static inline void paint(uint8_t *pixels, size_t size, uint64_t seq) {
    for (size_t i = 0; i < size; i++) {
        pixels[i] = (uint8_t)(seq * 131 + i * 7 + (seq >> 8));
    }
}

static inline int is_painted(const uint8_t *pixels, size_t size, uint64_t seq) {
    for (size_t i = 0; i < size; i++) {
        if (pixels[i] != (uint8_t)(seq * 131 + i * 7 + (seq >> 8))) {
            return 0;
        }
    }
    return 1;
}

static inline void pause_ms(long milliseconds) {
    struct timespec pause = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = milliseconds % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

#endif
