/* traj_check.h: what the tests of the trajectory lane share: a small schema and records that show
 * any mix or loss. */
#ifndef LK_TESTS_TRAJ_CHECK_H
#define LK_TESTS_TRAJ_CHECK_H

#include "check.h"

/* Three fields: tokens (ragged), score (one double), extra (ragged rows of 3 floats, optional). */
#define FIELDS 3
#define TOKENS_MAX 4096

static inline void small_schema(struct lk_traj_field fields[FIELDS]) {
    memset(fields, 0, FIELDS * sizeof *fields);
    strcpy(fields[0].name, "tokens");
    strcpy(fields[0].dtype, "<i4");
    fields[0].item_size = 4;
    fields[0].flags = LK_TRAJ_RAGGED;
    strcpy(fields[1].name, "score");
    strcpy(fields[1].dtype, "<f8");
    fields[1].item_size = 8;
    strcpy(fields[2].name, "extra");
    strcpy(fields[2].dtype, "<f4");
    fields[2].item_size = 4;
    fields[2].flags = LK_TRAJ_RAGGED | LK_TRAJ_OPTIONAL;
    fields[2].dimensions = 1;
    fields[2].shape[0] = 3;
}

static inline lk_traj_reader *open_reader(const char *run, uint32_t rings, uint64_t ring_size) {
    struct lk_traj_field fields[FIELDS];
    struct lk_traj_config config = {.rings = rings, .fields = FIELDS, .ring_size = ring_size};
    lk_traj_reader *reader;
    small_schema(fields);
    CHECK(lk_traj_create(&reader, run, strlen(run), &config, fields) >= 0);
    return reader;
}

static inline lk_traj_writer *open_producer(const char *run) {
    lk_traj_writer *writer;
    CHECK_STATUS(LK_OK, lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, UINT64_MAX, NULL));
    return writer;
}

static inline void end_lane(lk_traj_reader *reader) {
    CHECK_STATUS(LK_OK, lk_traj_reader_close(reader));
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
}

/* A record whose every byte derives from who puts it and its number. */
struct numbered {
    int32_t values[TOKENS_MAX];
    float extra[30];
    uint64_t metadata[2];
    double score;
    struct lk_traj_array arrays[FIELDS];
};

static inline void make_numbered(struct numbered *out, uint32_t who, uint32_t n, uint32_t tokens) {
    out->metadata[0] = who;
    out->metadata[1] = n;
    out->score = who * 1e6 + n;
    for (uint32_t i = 0; i < tokens; i++) {
        out->values[i] = (int32_t)(who * 7919 + n * 31 + i);
    }
    for (uint32_t i = 0; i < 3 * (n % 5); i++) {
        out->extra[i] = (float)(n + i);
    }
    out->arrays[0] = (struct lk_traj_array){out->values, tokens};
    out->arrays[1] = (struct lk_traj_array){&out->score, 1};
    out->arrays[2] = (struct lk_traj_array){out->extra, n % 7 == 0 ? UINT64_MAX : n % 5};
}

static inline int64_t put_numbered(lk_traj_writer *writer, uint32_t who, uint32_t n,
                                   uint32_t tokens, uint64_t timeout_ns) {
    static _Thread_local struct numbered record;
    make_numbered(&record, who, n, tokens);
    return lk_traj_put(writer, record.arrays, record.metadata, sizeof record.metadata, timeout_ns);
}

/* Check all of it; returns who and *n. */
static inline uint32_t check_numbered(const struct lk_traj_record *record,
                                      const struct lk_traj_array arrays[FIELDS], uint32_t *n) {
    uint64_t metadata[2];
    double score;
    CHECK(record->metadata_size == sizeof metadata);
    memcpy(metadata, record->metadata, sizeof metadata);
    memcpy(&score, arrays[1].data, sizeof score);
    uint32_t who = (uint32_t)metadata[0];
    *n = (uint32_t)metadata[1];
    CHECK(arrays[1].rows == 1 && score == who * 1e6 + *n);
    const int32_t *values = arrays[0].data;
    for (uint32_t i = 0; i < arrays[0].rows; i++) {
        CHECK(values[i] == (int32_t)(who * 7919 + *n * 31 + i));
    }
    if (*n % 7 == 0) {
        CHECK(arrays[2].rows == UINT64_MAX && arrays[2].data == NULL);
    } else {
        const float *extra = arrays[2].data;
        CHECK(arrays[2].rows == *n % 5);
        for (uint32_t i = 0; i < 3 * (*n % 5); i++) {
            CHECK(extra[i] == (float)(*n + i));
        }
    }
    return who;
}

static inline uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
