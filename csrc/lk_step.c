/* lk_step.c: step-lane geometry and inspection. The protocol is in lk_step_server.c and
 * lk_step_client.c, its labels in lk_step.h. */
#include "lk_step.h"

#include "lk_lock.h"
#include "lk_ring.h"

#include <string.h>
#include <unistd.h>

/* Far beyond any engine, far below what could overflow 64 bits in a product of three. */
#define ENVS_MAX (1u << 24)
#define ITEMS_MAX (1u << 24)
#define ITEM_SIZE_MAX 16u /* complex128 */
#define INFOS_MAX 1024u
#define DESCRIPTION_MAX (16u << 20)
#define IMAGE_SIDE_MAX 65536u
#define IMAGE_CHANNELS_MAX 16u
#define RING_MIN 4096u
#define RING_MAX (1u << 30)
#define TOTAL_MAX (UINT64_C(1) << 44)

static bool within(uint64_t value, uint64_t least, uint64_t most) {
    return value >= least && value <= most;
}

/* All three sides, or none. */
static bool image_fits(const struct lk_step_config *config) {
    if (config->image_width == 0 && config->image_height == 0 && config->image_channels == 0) {
        return true;
    }
    return within(config->image_width, 1, IMAGE_SIDE_MAX) &&
           within(config->image_height, 1, IMAGE_SIDE_MAX) &&
           within(config->image_channels, 1, IMAGE_CHANNELS_MAX);
}

static bool ring_fits(uint64_t size) {
    return size == 0 || (within(size, RING_MIN, RING_MAX) && size % LK_CACHE_LINE == 0);
}

static bool config_fits(const struct lk_step_config *config) {
    return config->mode <= LK_STEP_INFERENCE && within(config->halves, 1, LK_STEP_HALVES_MAX) &&
           within(config->num_envs, config->halves, ENVS_MAX) &&
           within(config->obs_size, 1, ITEMS_MAX) && within(config->act_size, 1, ITEMS_MAX) &&
           within(config->obs_item_size, 1, ITEM_SIZE_MAX) &&
           within(config->act_item_size, 1, ITEM_SIZE_MAX) &&
           (config->reward_size == sizeof(float) || config->reward_size == sizeof(double)) &&
           config->final_obs <= 1 && config->info_count <= INFOS_MAX &&
           config->description_size <= DESCRIPTION_MAX && config->gpu_available <= 1 &&
           config->gpu_obs_mode <= LK_GPU_VULKAN_EXTERNAL && image_fits(config) &&
           ring_fits(config->command_ring_size);
}

/* Append a region of this size; one of no size has no place, which offset 0 says. */
static uint64_t append(uint64_t *end, uint64_t size) {
    uint64_t offset = size != 0 ? *end : 0;
    *end += (size + LK_CACHE_LINE - 1) / LK_CACHE_LINE * LK_CACHE_LINE;
    return offset;
}

int lk_step_plan(const struct lk_step_config *config, struct lk_step_geometry *out,
                 uint64_t *total_size) {
    if (!config_fits(config)) {
        return LK_E_BAD_GEOMETRY;
    }
    memset(out, 0, sizeof *out);
    out->mode = (uint8_t)config->mode;
    out->halves = (uint8_t)config->halves;
    out->gpu_available = (uint8_t)config->gpu_available;
    out->gpu_obs_mode = (uint8_t)config->gpu_obs_mode;
    out->num_envs = config->num_envs;
    out->obs_size = config->obs_size;
    out->act_size = config->act_size;
    memcpy(out->obs_dtype, config->obs_dtype, sizeof out->obs_dtype);
    memcpy(out->act_dtype, config->act_dtype, sizeof out->act_dtype);
    out->obs_item_size = config->obs_item_size;
    out->act_item_size = config->act_item_size;
    out->reward_size = config->reward_size;
    out->info_count = config->info_count;
    out->description_size = config->description_size;
    out->image_width = config->image_width;
    out->image_height = config->image_height;
    out->image_channels = config->image_channels;
    out->gpu_device_id = config->gpu_device_id;
    memcpy(out->gpu_obs_handle, config->gpu_obs_handle, sizeof out->gpu_obs_handle);
    out->cmd_ring_size = config->command_ring_size;

    uint64_t envs = config->num_envs;
    uint64_t obs_bytes = envs * config->obs_size * config->obs_item_size;
    uint64_t ring_bytes =
        config->command_ring_size != 0 ? lk_ring_region_size(config->command_ring_size) : 0;
    uint64_t image_bytes =
        envs * config->image_width * config->image_height * config->image_channels;
    uint64_t end = LK_HEADER_SIZE;
    out->obs_offset = append(&end, obs_bytes);
    out->act_offset = append(&end, envs * config->act_size * config->act_item_size);
    out->rewards_offset = append(&end, envs * config->reward_size);
    out->dones_offset = append(&end, envs);
    out->truncateds_offset = append(&end, envs);
    out->resets_offset = append(&end, envs);
    out->seeds_offset = append(&end, envs * sizeof(uint64_t));
    out->final_obs_offset = append(&end, config->final_obs != 0 ? obs_bytes : 0);
    out->infos_offset = append(&end, envs * config->info_count * sizeof(double));
    out->info_names_offset = append(&end, (uint64_t)config->info_count * LK_STEP_INFO_NAME);
    out->description_offset = append(&end, config->description_size);
    out->cmd_s2c_offset = append(&end, ring_bytes);
    out->cmd_c2s_offset = append(&end, ring_bytes);
    out->image_offset = append(&end, image_bytes);
    *total_size = end;
    return end <= TOTAL_MAX ? LK_OK : LK_E_BAD_GEOMETRY;
}

void lk_step_config_of(const struct lk_step_geometry *geometry, struct lk_step_config *out) {
    memset(out, 0, sizeof *out);
    out->mode = geometry->mode;
    out->halves = geometry->halves;
    out->num_envs = geometry->num_envs;
    out->obs_size = geometry->obs_size;
    out->act_size = geometry->act_size;
    out->obs_item_size = geometry->obs_item_size;
    out->act_item_size = geometry->act_item_size;
    out->reward_size = geometry->reward_size;
    memcpy(out->obs_dtype, geometry->obs_dtype, sizeof out->obs_dtype);
    memcpy(out->act_dtype, geometry->act_dtype, sizeof out->act_dtype);
    out->final_obs = geometry->final_obs_offset != 0;
    out->info_count = geometry->info_count;
    out->description_size = geometry->description_size;
    out->image_width = geometry->image_width;
    out->image_height = geometry->image_height;
    out->image_channels = geometry->image_channels;
    out->command_ring_size = geometry->cmd_ring_size;
    out->gpu_available = geometry->gpu_available;
    out->gpu_obs_mode = geometry->gpu_obs_mode;
    out->gpu_device_id = geometry->gpu_device_id;
    memcpy(out->gpu_obs_handle, geometry->gpu_obs_handle, sizeof out->gpu_obs_handle);
}

int lk_step_check(const struct lk_step_geometry *found, uint64_t total_size) {
    struct lk_step_config config;
    struct lk_step_geometry planned;
    uint64_t planned_size;
    lk_step_config_of(found, &config);
    int status = lk_step_plan(&config, &planned, &planned_size);
    if (status != LK_OK) {
        return status;
    }
    bool same = memcmp(found, &planned, offsetof(struct lk_step_geometry, reserved)) == 0 &&
                planned_size == total_size;
    return same ? LK_OK : LK_E_BAD_GEOMETRY;
}

static void *region(void *base, uint64_t offset) {
    return offset != 0 ? (uint8_t *)base + offset : NULL;
}

void lk_step_find_regions(void *base, const struct lk_step_geometry *geometry,
                          struct lk_step_regions *out) {
    out->obs = region(base, geometry->obs_offset);
    out->actions = region(base, geometry->act_offset);
    out->rewards = region(base, geometry->rewards_offset);
    out->dones = region(base, geometry->dones_offset);
    out->truncateds = region(base, geometry->truncateds_offset);
    out->resets = region(base, geometry->resets_offset);
    out->seeds = region(base, geometry->seeds_offset);
    out->final_obs = region(base, geometry->final_obs_offset);
    out->infos = region(base, geometry->infos_offset);
    out->info_names = region(base, geometry->info_names_offset);
    out->description = region(base, geometry->description_offset);
    out->images = region(base, geometry->image_offset);
}

void lk_step_tell_state(const struct lk_step_header *header, enum lk_liveness client,
                        struct lk_step_state *out) {
    memset(out, 0, sizeof *out);
    /* relaxed: numbers to look at; nothing is read on their account. They are read one after the
     * other, in a copy of the header in any order: what is completed was sent. */
    out->completed = atomic_load_explicit(&header->frame_seq, memory_order_relaxed);
    out->sent = atomic_load_explicit(&header->action_seq, memory_order_relaxed);
    if (out->sent < out->completed) {
        out->sent = out->completed;
    }
    uint64_t word = atomic_load_explicit(&header->client, memory_order_relaxed);
    if (word != 0) {
        out->client_pid = (uint32_t)(word >> 32);
        out->client = client;
    }
}

int64_t lk_step_segment_size(const struct lk_step_config *config) {
    struct lk_step_geometry geometry;
    uint64_t total_size;
    int status = lk_step_plan(config, &geometry, &total_size);
    return status == LK_OK ? (int64_t)total_size : status;
}

int lk_step_inspect(const char *name, struct lk_step_config *config, struct lk_step_state *state) {
    struct lk_step_header header;
    enum lk_liveness client = LK_UNKNOWN;
    int fd;
    memset(config, 0, sizeof *config);
    memset(state, 0, sizeof *state);
    int status = lk_segment_peek(name, &header, sizeof header, &fd);
    if (fd >= 0) {
        client = lk_lock_holder(fd, LK_ROLE_CLIENT);
        close(fd);
    }
    if (status == LK_OK && header.segment.magic != LK_MAGIC_STEP) {
        status = LK_E_WRONG_KIND;
    }
    if (status == LK_OK) {
        status = lk_step_check(&header.geometry, header.segment.total_size);
    }
    if (status != LK_OK) {
        return status;
    }
    lk_step_config_of(&header.geometry, config);
    lk_step_tell_state(&header, client, state);
    return LK_OK;
}
