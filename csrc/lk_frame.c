/* lk_frame.c: fast-lane geometry and inspection. The protocol is in lk_frame_writer.c,
 * lk_frame_attach.c and lk_frame_reader.c, its labels in lk_seqlock.h and lk_wait.h. */
#include "lk_frame.h"

#include "lk_lock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Far beyond any screen or camera, far below what could overflow. */
#define SIDE_MAX 65536u
#define CAPACITY_MAX 1048576u
#define METADATA_MAX (64u << 20)
#define TOTAL_MAX (UINT64_C(1) << 44)

static uint32_t channels_of(uint32_t pixel_format) {
    switch (pixel_format) {
    case LK_PIXEL_RGB: return 3;
    case LK_PIXEL_RGBA:
    case LK_PIXEL_BGRX: return 4;
    case LK_PIXEL_GRAY: return 1;
    default: return 0;
    }
}

static uint64_t round_up_to_line(uint64_t size) {
    return (size + LK_CACHE_LINE - 1) / LK_CACHE_LINE * LK_CACHE_LINE;
}

int lk_frame_plan(const struct lk_frame_config *config, struct lk_frame_geometry *out,
                  uint64_t *total_size) {
    if (config->width == 0 || config->width > SIDE_MAX || config->height == 0 ||
        config->height > SIDE_MAX || config->capacity == 0 || config->capacity > CAPACITY_MAX ||
        config->metadata_size > METADATA_MAX ||
        config->channels != channels_of(config->pixel_format) || config->channels == 0) {
        return LK_E_BAD_GEOMETRY;
    }
    memset(out, 0, sizeof *out);
    out->width = config->width;
    out->height = config->height;
    out->channels = config->channels;
    out->pixel_format = config->pixel_format;
    out->capacity = config->capacity;
    out->metadata_size = config->metadata_size;
    /* At most 2^16 * 2^16 * 4 = 2^34, and the stride stays below 2^35: no overflow in 64 bits,
     * also not when multiplied by 2^20 slots. */
    out->payload_size = (uint64_t)config->width * config->height * config->channels;
    out->slots_offset = LK_HEADER_SIZE;
    out->metadata_offset = sizeof(struct lk_frame_slot) + round_up_to_line(out->payload_size);
    out->slot_stride = out->metadata_offset + round_up_to_line(config->metadata_size);
    *total_size = out->slots_offset + out->slot_stride * out->capacity;
    return *total_size <= TOTAL_MAX ? LK_OK : LK_E_BAD_GEOMETRY;
}

int lk_frame_check(const struct lk_frame_geometry *found, uint64_t total_size) {
    struct lk_frame_config config = lk_frame_config_of(found);
    struct lk_frame_geometry planned;
    uint64_t planned_size;
    int status = lk_frame_plan(&config, &planned, &planned_size);
    if (status != LK_OK) {
        return status;
    }
    bool same = found->payload_size == planned.payload_size &&
                found->slot_stride == planned.slot_stride &&
                found->slots_offset == planned.slots_offset &&
                found->metadata_offset == planned.metadata_offset && planned_size == total_size;
    return same ? LK_OK : LK_E_BAD_GEOMETRY;
}

int64_t lk_frame_segment_size(const struct lk_frame_config *config) {
    struct lk_frame_geometry geometry;
    uint64_t total_size;
    int status = lk_frame_plan(config, &geometry, &total_size);
    return status == LK_OK ? (int64_t)total_size : status;
}

int lk_frame_inspect(const char *name, struct lk_frame_status *out) {
    struct lk_frame_header header;
    uint32_t viewers = 0;
    int fd;
    memset(out, 0, sizeof *out);
    int status = lk_segment_peek(name, &header, sizeof header, &fd);
    for (uint32_t i = 0; status == LK_OK && i < LK_FRAME_VIEWERS; i++) {
        viewers += lk_lock_holder(fd, LK_ROLE_VIEWER + i) == LK_ALIVE;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (status == LK_OK && header.segment.magic != LK_MAGIC_FRAME) {
        status = LK_E_WRONG_KIND;
    }
    if (status == LK_OK) {
        status = lk_frame_check(&header.geometry, header.segment.total_size);
    }
    if (status != LK_OK) {
        return status;
    }
    out->config = lk_frame_config_of(&header.geometry);
    out->head = atomic_load_explicit(&header.head, memory_order_relaxed);
    out->viewers = viewers;
    return LK_OK;
}
