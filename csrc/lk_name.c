/*
 * lk_name.c: from a run id to a segment name.
 *
 * "lanekit-<kind>-<slug>-<hash>": people recognise the slug in /dev/shm, the hash makes ids that
 * share a slug distinct, and the whole stays below the 255 bytes a file name may have.
 */
#include "lanekit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SLUG_MAX 48

/* --- SHA-256 (FIPS 180-4), so that every language can recompute names from its own library ---- */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void digest_block(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64];
    for (size_t i = 0; i < 16; i++) {
        const uint8_t *bytes = block + 4 * i;
        w[i] = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
               bytes[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8];
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^ rotate_right(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + round_constants[i] + w[i];
        uint32_t s0 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^ rotate_right(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

/* The first 64 bits of the digest, as a big-endian number like the usual hex notation. */
static uint64_t sha256_64(const uint8_t *data, size_t size) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t rest = size;
    for (; rest >= 64; rest -= 64, data += 64) {
        digest_block(state, data);
    }
    uint8_t tail[128] = {0};
    memcpy(tail, data, rest);
    tail[rest] = 0x80;
    size_t tail_size = rest < 56 ? 64 : 128;
    uint64_t bits = (uint64_t)size * 8;
    for (size_t i = 0; i < 8; i++) {
        tail[tail_size - 1 - i] = (uint8_t)(bits >> (8 * i));
    }
    for (size_t at = 0; at < tail_size; at += 64) {
        digest_block(state, tail + at);
    }
    return (uint64_t)state[0] << 32 | state[1];
}

/* --- names ------------------------------------------------------------------------------------ */

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_';
}

/* Runs of other bytes become one '-'; none at either end. */
static void write_slug(const char *run_id, size_t size, char out[SLUG_MAX + 1]) {
    size_t length = 0;
    bool gap = false;
    for (size_t i = 0; i < size; i++) {
        if (!is_plain(run_id[i])) {
            gap = length > 0;
            continue;
        }
        if (length + gap >= SLUG_MAX) {
            break;
        }
        if (gap) {
            out[length++] = '-';
            gap = false;
        }
        out[length++] = run_id[i];
    }
    if (length == 0) {
        memcpy(out, "run", 3);
        length = 3;
    }
    out[length] = '\0';
}

static const char *kind_word(uint32_t kind) {
    switch (kind) {
    case LK_KIND_FRAME: return "frame";
    case LK_KIND_STEP: return "step";
    case LK_KIND_TRAJ: return "traj";
    default: return NULL;
    }
}

int lk_segment_name(uint32_t kind, const char *run_id, size_t run_id_size, char *out,
                    size_t out_size) {
    const char *word = kind_word(kind);
    if (word == NULL || run_id == NULL || run_id_size == 0) {
        return LK_E_INVALID;
    }
    char slug[SLUG_MAX + 1];
    write_slug(run_id, run_id_size, slug);
    unsigned long long hash = sha256_64((const uint8_t *)run_id, run_id_size);
    int length = snprintf(out, out_size, "lanekit-%s-%s-%016llx", word, slug, hash);
    return length >= 0 && (size_t)length < out_size ? LK_OK : LK_E_SIZE;
}
