/*
 * lk_traj_reader.h: the consumer of the trajectory lane, as lk_traj_create.c and lk_traj_reader.c
 * share it.
 */
#ifndef LK_TRAJ_READER_H
#define LK_TRAJ_READER_H

#include "lk_guard.h"
#include "lk_spin.h"
#include "lk_traj.h"

/* A record in the caller's hands, or released before an older one. */
struct lk_traj_held {
    uint64_t start;
    uint64_t end;
    bool released;
};

enum lk_traj_trust { LK_TRAJ_TRUSTED = 0, LK_TRAJ_SPOILED_UNTOLD = 1, LK_TRAJ_SPOILED_TOLD = 2 };

struct lk_traj_ring_state {
    struct lk_traj_ring *ring;
    uint8_t *data;
    uint64_t read; /* position of the next record to deliver */
    uint64_t tail;
    uint64_t session, number; /* of the last record delivered; session 0: not known */
    uint64_t released;
    struct lk_traj_held *held; /* tickets first to next - 1; capacity is a power of two */
    uint64_t first, next, capacity;
    enum lk_traj_trust trust;
};

struct lk_traj_reader {
    struct lk_guard guard;
    lk_segment *segment;
    struct lk_traj_header *header;
    uint32_t turn; /* the ring to ask first */
    uint64_t heartbeat_ns;
    struct lk_spin spin;
    struct lk_traj_ring_state *rings;
    struct lk_traj_geometry geometry;
    struct lk_traj_schema schema;
    struct lk_segment_id id;
};

#endif
