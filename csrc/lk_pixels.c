/*
 * lk_pixels.c: from a slot's pixels to those that screens take.
 *
 * The slot may be overwritten meanwhile, as during any peek. So its bytes come out by the copies of
 * lk_copy.c, a few kilobytes at a time, and are converted while they are in the nearest cache: one
 * pass over the frame's memory, and nothing that the language leaves undefined.
 */
#include "lk_cpu.h"
#include "lk_platform.h"

#include <string.h>

#if defined(__x86_64__)
#include <tmmintrin.h>
#endif

enum { AT_ONCE = 1024 }; /* pixels */

typedef void converter(uint8_t *out, const uint8_t *from, size_t count);

static void from_rgb(uint8_t *out, const uint8_t *from, size_t count) {
    for (; count > 0; count--, out += 4, from += 3) {
        out[0] = from[2];
        out[1] = from[1];
        out[2] = from[0];
        out[3] = 255;
    }
}

/* Little-endian words, as everywhere here: blue is the lowest byte, the unused one the highest. */
static const uint32_t opaque_word = 0xFF000000u;

static void from_rgba(uint8_t *out, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, from + 4 * i, 4);
        word = (word & 0xFF00u) | (word & 0xFFu) << 16 | (word >> 16 & 0xFFu) | opaque_word;
        memcpy(out + 4 * i, &word, 4);
    }
}

/* Writers leave anything in the unused byte. */
static void from_bgrx(uint8_t *out, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, from + 4 * i, 4);
        word |= opaque_word;
        memcpy(out + 4 * i, &word, 4);
    }
}

static void from_gray(uint8_t *out, const uint8_t *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t word = from[i] * 0x010101u | opaque_word;
        memcpy(out + 4 * i, &word, 4);
    }
}

#if defined(__x86_64__)

/* Sixteen pixels of three bytes are three registers; each quarter of them is moved to the beginning
 * of a register, and from there to its places. */
__attribute__((target("ssse3"))) static void from_rgb_ssse3(uint8_t *out, const uint8_t *from,
                                                            size_t count) {
    const __m128i places = _mm_setr_epi8(2, 1, 0, -1, 5, 4, 3, -1, 8, 7, 6, -1, 11, 10, 9, -1);
    const __m128i opaque = _mm_set1_epi32((int)0xFF000000u);
    for (; count >= 16; count -= 16, out += 64, from += 48) {
        const __m128i first = _mm_loadu_si128((const __m128i *)(const void *)from);
        const __m128i second = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        const __m128i third = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        const __m128i quarters[4] = {first, _mm_alignr_epi8(second, first, 12),
                                     _mm_alignr_epi8(third, second, 8), _mm_srli_si128(third, 4)};
        for (size_t i = 0; i < 4; i++) {
            const __m128i pixels = _mm_or_si128(_mm_shuffle_epi8(quarters[i], places), opaque);
            _mm_storeu_si128((__m128i *)(void *)(out + 16 * i), pixels);
        }
    }
    from_rgb(out, from, count);
}

static converter *rgb_converter(void) {
    return lk_cpu.ssse3 ? from_rgb_ssse3 : from_rgb;
}

#else

static converter *rgb_converter(void) {
    return from_rgb;
}

#endif

int lk_pixels_to_bgrx(void *out, const void *from, size_t count, int pixel_format) {
    converter *convert;
    size_t width;
    switch (pixel_format) {
    case LK_PIXEL_RGB:
        convert = rgb_converter();
        width = 3;
        break;
    case LK_PIXEL_RGBA:
        convert = from_rgba;
        width = 4;
        break;
    case LK_PIXEL_BGRX:
        convert = from_bgrx;
        width = 4;
        break;
    case LK_PIXEL_GRAY:
        convert = from_gray;
        width = 1;
        break;
    default: return LK_E_INVALID;
    }
    if ((uintptr_t)from % sizeof(uint64_t) != 0) {
        return LK_E_INVALID; /* no slot begins there */
    }
    uint8_t *to = out;
    const uint8_t *shared = from;
    uint64_t nearby[AT_ONCE / 2]; /* of up to four bytes each */
    while (count > 0) {
        const size_t now = count < AT_ONCE ? count : AT_ONCE;
        lk_copy_from_shared(nearby, (const _Atomic uint64_t *)(const void *)shared, now * width);
        convert(to, (const uint8_t *)nearby, now);
        to += 4 * now;
        shared += width * now;
        count -= now;
    }
    return LK_OK;
}
