/*
 * lk_traj_writer.h: a producer of the trajectory lane, as lk_traj_attach.c and lk_traj_writer.c
 * share it.
 */
#ifndef LK_TRAJ_WRITER_H
#define LK_TRAJ_WRITER_H

#include "lk_guard.h"
#include "lk_spin.h"
#include "lk_traj.h"

struct lk_traj_writer {
    struct lk_guard guard;
    bool reserved;
    lk_segment *segment;
    struct lk_traj_header *header;
    struct lk_traj_ring *ring;
    uint8_t *data;
    uint64_t head;             /* from private memory: nobody else may move it for us */
    _Atomic uint64_t position; /* the same, for light calls beside a put; relaxed, always */
    uint64_t tail;             /* as last seen */
    uint64_t number;
    uint64_t session;
    uint64_t producer; /* how our ring is marked */
    uint64_t records, bytes, stalls, stalled_ns;
    uint64_t stalled_at; /* the head at the last stall: waiting in pieces counts as one */
    uint64_t absence_ns;
    uint64_t absent_since_ns; /* 0: there is a consumer, as far as we know */
    uint64_t consumer_checked_ns;
    struct lk_spin spin;
    uint64_t padding; /* before the record that is being written */
    uint64_t metadata_room;
    struct lk_traj_places places;
    uint64_t rows[LK_TRAJ_FIELDS_MAX];
    struct lk_traj_geometry geometry;
    struct lk_traj_schema schema;
};

static inline uint32_t lk_traj_writer_ring_index(const lk_traj_writer *writer) {
    return (uint32_t)(writer->ring - lk_traj_ring_at(writer->header, &writer->geometry, 0));
}

/* Whether a tail can be that of a ring whose head is ours. */
static inline bool lk_traj_writer_plausible(const lk_traj_writer *writer, uint64_t tail) {
    return tail % LK_CACHE_LINE == 0 && tail <= writer->head &&
           writer->head - tail <= writer->geometry.ring_size;
}

#endif
