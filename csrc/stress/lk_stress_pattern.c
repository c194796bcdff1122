/*
 * lk_stress_pattern.c: frames that can be checked: what belongs into frame n follows from n alone.
 *
 * Labels: none; all of it is private memory.
 *
 * Who writes: the writer fills its own buffer. Who reads: each reader judges its own copy, with
 * nothing to ask the writer for, whether that lives or not.
 */
#include "lk_stress_party.h"

#include <string.h>

static const uint64_t stride = 0x9E3779B97F4A7C15u;
static const uint64_t metadata_salt = 0x6D65746164617461u;

uint64_t lk_stress_scramble(uint64_t seq) {
    uint64_t x = seq + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static void fill(uint64_t word, void *bytes, size_t size) {
    uint8_t *to = bytes;
    for (; size >= 8; size -= 8, to += 8, word += stride) {
        memcpy(to, &word, 8);
    }
    memcpy(to, &word, size);
}

static bool filled(uint64_t word, const void *bytes, size_t size) {
    const uint8_t *from = bytes;
    uint64_t wrong = 0;
    uint64_t found;
    for (; size >= 8; size -= 8, from += 8, word += stride) {
        memcpy(&found, from, 8);
        wrong |= found ^ word;
    }
    return wrong == 0 && memcmp(from, &word, size) == 0;
}

static int64_t metadata_size_of(uint64_t seq, size_t capacity) {
    return capacity == 0 || seq % 5 == 0 ? -1 : (int64_t)(lk_stress_scramble(seq) % (capacity + 1));
}

static struct lk_frame_metrics metrics_of(uint64_t seq) {
    double n = (double)seq;
    return (struct lk_frame_metrics){.last_reward = n, .rolling_return = -n, .step_rate_hz = 2 * n};
}

int64_t lk_stress_fill(uint64_t seq, void *pixels, size_t pixels_size, void *metadata,
                       size_t metadata_capacity, double *metrics) {
    int64_t metadata_size = metadata_size_of(seq, metadata_capacity);
    struct lk_frame_metrics numbers = metrics_of(seq);
    fill(lk_stress_scramble(seq), pixels, pixels_size);
    if (metadata_size > 0) {
        fill(lk_stress_scramble(seq) ^ metadata_salt, metadata, (size_t)metadata_size);
    }
    memcpy(metrics, &numbers, sizeof numbers);
    return metadata_size;
}

uint64_t lk_stress_metrics_seq(double last_reward, double rolling_return, double step_rate_hz) {
    bool belong = last_reward >= 0 && last_reward < 0x1p53 && rolling_return == -last_reward &&
                  step_rate_hz == 2 * last_reward;
    return belong ? (uint64_t)last_reward : 0;
}

int lk_stress_check(uint64_t seq, const void *pixels, size_t pixels_size, const void *metadata,
                    int64_t metadata_size, size_t metadata_capacity, double last_reward,
                    double rolling_return, double step_rate_hz) {
    return lk_stress_metrics_seq(last_reward, rolling_return, step_rate_hz) == seq &&
           metadata_size == metadata_size_of(seq, metadata_capacity) &&
           filled(lk_stress_scramble(seq), pixels, pixels_size) &&
           (metadata_size <= 0 ||
            filled(lk_stress_scramble(seq) ^ metadata_salt, metadata, (size_t)metadata_size));
}
