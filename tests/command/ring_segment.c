/*
 * ring_segment.c: a segment with nothing but two command rings, for tests of the Python side without
 * a step lane around it. Each end notes its process in the header, so that the other can tell
 * whether it is still there.
 */
#include "lk_cmd.h"
#include "lk_segment.h"

#include <stdlib.h>
#include <string.h>

#define LEFT UINT64_C(1)

struct ends {
    _Atomic uint64_t identity[2]; /* 0: has not come yet */
};

struct context {
    struct ends *ends;
    int other;
};

struct ring_end {
    lk_cmd *cmd;
    lk_segment *segment;
    struct context context;
    struct lk_segment_id id;
    int end;
};

static int gone(void *opaque) {
    const struct context *context = opaque;
    uint64_t identity = atomic_load(&context->ends->identity[context->other]);
    return identity == LEFT || (identity != 0 && lk_process_word_liveness(identity) == LK_DEAD);
}

/* Open an end: 0 is the server's, which creates the segment, 1 the client's. */
int ring_end_open(struct ring_end **out, const char *run, uint64_t ring_bytes, int end) {
    struct ring_end *made = calloc(1, sizeof *made);
    struct lk_segment_header header;
    struct lk_process self;
    uint64_t region = lk_ring_region_size(ring_bytes);
    struct lk_segment_request request = {
        .kind = LK_KIND_STEP,
        .magic = LK_MAGIC_STEP,
        .run_id = run,
        .run_id_size = strlen(run),
        .total_size = LK_HEADER_SIZE + 2 * region,
    };
    int status = end == 0 ? lk_segment_create(&made->segment, &request)
                          : lk_segment_attach(&made->segment, &request, &header);
    if (status == LK_OK && end == 0) {
        status = lk_segment_make_ready(made->segment);
    }
    if (status == LK_OK) {
        status = lk_process_self(&self);
    }
    if (status == LK_OK) {
        uint8_t *base = lk_segment_base(made->segment);
        made->end = end;
        made->id = *lk_segment_identity(made->segment);
        made->context.ends = (struct ends *)(void *)(base + 512);
        made->context.other = 1 - end;
        atomic_store(&made->context.ends->identity[end], lk_process_word(&self));
        struct lk_cmd_peer peer = {gone, &made->context};
        uint64_t first = LK_HEADER_SIZE;
        uint64_t second = LK_HEADER_SIZE + region;
        status = lk_cmd_open(&made->cmd, made->segment, end == 0 ? first : second,
                             end == 0 ? second : first, ring_bytes, &peer);
    }
    *out = made;
    return status;
}

lk_cmd *ring_end_channel(struct ring_end *ring) {
    return ring->cmd;
}

/* The bytes of the rings, to be spoilt. */
void *ring_end_rings(struct ring_end *ring) {
    return (uint8_t *)lk_segment_base(ring->segment) + LK_HEADER_SIZE;
}

void ring_end_close(struct ring_end *ring) {
    atomic_store(&ring->context.ends->identity[ring->end], LEFT);
    lk_cmd_close(ring->cmd);
    if (ring->end == 0) {
        lk_segment_unlink(&ring->id);
    }
}
