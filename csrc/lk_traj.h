/*
 * lk_traj.h: what the trajectory lane's producers and its consumer share: geometry, schema, and the
 * way a record lies in a ring.
 *
 * Why one ring per producer, and not one ring in which all claim and commit: measured with records
 * of 24.6 KB both move about 12 GB/s (memcpy 14 to 15), with 64-byte records and four producers the
 * single rings are twice as fast; and a producer that dies leaves no claimed hole which somebody
 * would have to find and repair. It costs memory: each producer's share is its own.
 *
 * Geometry and schema are private, checked copies. Every address is computed from them.
 */
#ifndef LK_TRAJ_H
#define LK_TRAJ_H

#include "lk_layout.h"
#include "lk_segment.h"

/* Bytes at 10 GB/s would take 14 years; above it, sums could wrap. */
#define LK_TRAJ_POSITION_MAX (UINT64_C(1) << 62)
#define LK_TRAJ_ABSENT UINT64_MAX

struct lk_traj_schema {
    uint32_t count;
    uint32_t version;
    uint64_t row_size[LK_TRAJ_FIELDS_MAX];
    struct lk_traj_field fields[LK_TRAJ_FIELDS_MAX];
};

/* Where a record's parts lie, from the end of its header. */
struct lk_traj_places {
    uint64_t field[LK_TRAJ_FIELDS_MAX];
    uint64_t metadata;
    uint64_t size; /* of it all, a multiple of 64 */
};

int lk_traj_plan(const struct lk_traj_config *config, struct lk_traj_geometry *out,
                 uint64_t *total_size);

/* Judge a geometry found in a segment of that size: it must be exactly what lk_traj_plan says. */
int lk_traj_check(const struct lk_traj_geometry *found, uint64_t total_size);
struct lk_traj_config lk_traj_config_of(const struct lk_traj_geometry *geometry);

/* Copy and check a schema. LK_E_INVALID when a field is none. */
int lk_traj_schema_set(struct lk_traj_schema *out, const struct lk_traj_field *fields,
                       uint32_t count, uint32_t version);
bool lk_traj_schema_same(const struct lk_traj_schema *a, const struct lk_traj_schema *b);

/* LK_E_INVALID when a field can not have that many rows, LK_E_TOO_LARGE beyond all bounds. */
int lk_traj_lay_out(const struct lk_traj_schema *schema, const uint64_t *rows,
                    uint64_t metadata_size, struct lk_traj_places *out);

/* Copy geometry and schema of a mapped segment, and check them. */
int lk_traj_adopt_geometry(const lk_segment *segment, uint64_t total_size,
                           struct lk_traj_geometry *geometry, struct lk_traj_schema *schema);

void lk_traj_ring_describe(const struct lk_traj_ring *ring, uint64_t ring_size,
                           enum lk_liveness producer, struct lk_traj_ring_status *out);

static inline uint64_t lk_traj_round_up(uint64_t size) {
    return (size + LK_CACHE_LINE - 1) / LK_CACHE_LINE * LK_CACHE_LINE;
}

static inline struct lk_traj_ring *lk_traj_ring_at(void *base,
                                                   const struct lk_traj_geometry *geometry,
                                                   uint32_t index) {
    uint8_t *control = (uint8_t *)base + geometry->control_offset;
    return (struct lk_traj_ring *)(void *)(control + index * sizeof(struct lk_traj_ring));
}

static inline uint8_t *lk_traj_data_at(void *base, const struct lk_traj_geometry *geometry,
                                       uint32_t index) {
    return (uint8_t *)base + geometry->data_offset + index * geometry->ring_size;
}

#endif
