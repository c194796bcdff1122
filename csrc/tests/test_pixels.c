/* Pixels of every format become what a screen takes, at every count, and nothing beyond is touched.
 */
#include "check.h"
#include "lanekit.h"

enum { MOST = 2100 };

static uint64_t slot[MOST * 4 / 8 + 8];
static uint8_t out[MOST * 4 + 8];

/* Where in a pixel of the format its blue, green and red are. */
struct places {
    int format;
    size_t width;
    size_t blue;
    size_t green;
    size_t red;
};

static void try_count(const struct places *at, size_t count) {
    const uint8_t *from = (const uint8_t *)slot;
    memset(out, 0xEE, sizeof out);
    CHECK(lk_pixels_to_bgrx(out, slot, count, at->format) == LK_OK);
    for (size_t i = 0; i < count; i++) {
        CHECK(out[4 * i] == from[at->width * i + at->blue]);
        CHECK(out[4 * i + 1] == from[at->width * i + at->green]);
        CHECK(out[4 * i + 2] == from[at->width * i + at->red]);
        CHECK(out[4 * i + 3] == 255);
    }
    CHECK(out[4 * count] == 0xEE);
}

int main(void) {
    static const struct places formats[] = {{LK_PIXEL_RGB, 3, 2, 1, 0},
                                            {LK_PIXEL_RGBA, 4, 2, 1, 0},
                                            {LK_PIXEL_BGRX, 4, 0, 1, 2},
                                            {LK_PIXEL_GRAY, 1, 0, 0, 0}};
    uint8_t *bytes = (uint8_t *)slot;
    const size_t size = sizeof slot;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        for (size_t count = 0; count < 100; count++) {
            try_count(&formats[i], count);
        }
        for (size_t count = 1000; count < MOST; count += 49) {
            try_count(&formats[i], count);
        }
    }
    CHECK(lk_pixels_to_bgrx(out, slot, 1, 0) == LK_E_INVALID);
    CHECK(lk_pixels_to_bgrx(out, slot, 1, 5) == LK_E_INVALID);
    CHECK(lk_pixels_to_bgrx(out, bytes + 1, 1, LK_PIXEL_RGB) == LK_E_INVALID);
    return 0;
}
