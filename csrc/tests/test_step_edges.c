/*
 * The step lane at its edges: every limit of its sizes, where each region lies, what is left of a
 * failed look, and handles that are closed.
 */
#include "check.h"
#include "lk_layout.h"
#include "lk_segment.h"

static struct lk_step_config good(void) {
    return (struct lk_step_config){
        .mode = LK_STEP_TRAINING,
        .halves = 1,
        .num_envs = 5,
        .obs_size = 3,
        .act_size = 2,
        .obs_item_size = 4,
        .act_item_size = 4,
        .reward_size = 4,
        .obs_dtype = "<f4",
        .act_dtype = "<f4",
    };
}

static void every_limit_is_kept(void) {
    struct lk_step_config config;
#define REFUSED(...)                                                    \
    do {                                                                \
        config = good();                                                \
        __VA_ARGS__;                                                    \
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_step_segment_size(&config)); \
    } while (0)
#define ACCEPTED(...)                             \
    do {                                          \
        config = good();                          \
        __VA_ARGS__;                              \
        CHECK(lk_step_segment_size(&config) > 0); \
    } while (0)
    ACCEPTED(config.mode = LK_STEP_INFERENCE);
    REFUSED(config.mode = LK_STEP_INFERENCE + 1);
    REFUSED(config.halves = 0);
    ACCEPTED(config.halves = LK_STEP_HALVES_MAX);
    REFUSED(config.halves = LK_STEP_HALVES_MAX + 1);
    REFUSED(config.num_envs = 0);
    ACCEPTED(config.num_envs = 1);
    REFUSED(config.num_envs = 1, config.halves = 2);
    ACCEPTED(config.num_envs = 2, config.halves = 2);
    ACCEPTED(config.num_envs = 1u << 24);
    REFUSED(config.num_envs = (1u << 24) + 1);
    REFUSED(config.obs_size = 0);
    ACCEPTED(config.obs_size = 1);
    ACCEPTED(config.obs_size = 1u << 24);
    REFUSED(config.obs_size = (1u << 24) + 1);
    REFUSED(config.act_size = 0);
    ACCEPTED(config.act_size = 1);
    ACCEPTED(config.act_size = 1u << 24);
    REFUSED(config.act_size = (1u << 24) + 1);
    REFUSED(config.obs_item_size = 0);
    ACCEPTED(config.obs_item_size = 16);
    REFUSED(config.obs_item_size = 17);
    REFUSED(config.act_item_size = 0);
    ACCEPTED(config.act_item_size = 16);
    REFUSED(config.act_item_size = 17);
    ACCEPTED(config.reward_size = 8);
    REFUSED(config.reward_size = 5);
    REFUSED(config.reward_size = 0);
    ACCEPTED(config.final_obs = 1);
    REFUSED(config.final_obs = 2);
    ACCEPTED(config.info_count = 1024);
    REFUSED(config.info_count = 1025);
    ACCEPTED(config.description_size = 16u << 20);
    REFUSED(config.description_size = (16u << 20) + 1);
    ACCEPTED(config.gpu_available = 1);
    REFUSED(config.gpu_available = 2);
    ACCEPTED(config.gpu_obs_mode = LK_GPU_VULKAN_EXTERNAL);
    REFUSED(config.gpu_obs_mode = LK_GPU_VULKAN_EXTERNAL + 1);
    /* All three sides, or none. */
    ACCEPTED(config.image_width = 1, config.image_height = 1, config.image_channels = 1);
    REFUSED(config.image_width = 1, config.image_height = 1);
    REFUSED(config.image_width = 1, config.image_channels = 1);
    REFUSED(config.image_height = 1, config.image_channels = 1);
    REFUSED(config.image_width = 1);
    REFUSED(config.image_height = 1);
    REFUSED(config.image_channels = 1);
    ACCEPTED(config.image_width = 65536, config.image_height = 1, config.image_channels = 1);
    REFUSED(config.image_width = 65537, config.image_height = 1, config.image_channels = 1);
    ACCEPTED(config.image_width = 1, config.image_height = 65536, config.image_channels = 1);
    REFUSED(config.image_width = 1, config.image_height = 65537, config.image_channels = 1);
    ACCEPTED(config.image_width = 1, config.image_height = 1, config.image_channels = 16);
    REFUSED(config.image_width = 1, config.image_height = 1, config.image_channels = 17);
    ACCEPTED(config.command_ring_size = 4096);
    REFUSED(config.command_ring_size = 4096 - 64);
    REFUSED(config.command_ring_size = 4096 + 32);
    ACCEPTED(config.command_ring_size = 1u << 30);
    REFUSED(config.command_ring_size = (1u << 30) + 64);
    /* Each within its limit, and all of it too much. */
    REFUSED(config.num_envs = 1u << 24, config.obs_size = 1u << 24);
}

static uint64_t rounded(uint64_t size) {
    return (size + 63) / 64 * 64;
}

/* One region after the other, each on a line of its own, and nothing for those that are not there.
 */
static void regions_follow_each_other(void) {
    struct lk_step_config config = good();
    uint64_t size = 4096 + rounded(60) + rounded(40) + rounded(20) + 3 * rounded(5) + rounded(40);
    CHECK_STATUS(size, lk_step_segment_size(&config));
    config.final_obs = 1;
    size += rounded(60);
    CHECK_STATUS(size, lk_step_segment_size(&config));
    config.info_count = 2;
    size += rounded(80) + rounded(128);
    CHECK_STATUS(size, lk_step_segment_size(&config));
    config.description_size = 65;
    size += rounded(65);
    CHECK_STATUS(size, lk_step_segment_size(&config));
    config.command_ring_size = 4096;
    size += 2 * UINT64_C(4224);
    CHECK_STATUS(size, lk_step_segment_size(&config));
    config.image_width = 4;
    config.image_height = 3;
    config.image_channels = 2;
    size += rounded(120);
    CHECK_STATUS(size, lk_step_segment_size(&config));
    config.reward_size = 8;
    config.num_envs = 9;
    CHECK(lk_step_segment_size(&config) > (int64_t)size);
}

static void the_header_says_where_each_region_is(void) {
    static const char names[LK_STEP_INFO_NAME * 2] = "speed";
    char run[64];
    lk_step_server *server;
    lk_segment *segment;
    struct lk_step_regions regions;
    struct lk_step_config config = good();
    config.final_obs = 1;
    config.info_count = 2;
    config.description_size = 5;
    config.command_ring_size = 4096;
    config.image_width = config.image_height = config.image_channels = 2;
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, names, "hello"));
    CHECK_STATUS(LK_OK, lk_step_server_regions(server, &segment, &regions));
    uint8_t *base = lk_segment_base(segment);
    const struct lk_step_geometry *g = &((struct lk_step_header *)(void *)base)->geometry;
    const uint64_t offsets[] = {
        LK_HEADER_SIZE,       g->act_offset,        g->rewards_offset,     g->dones_offset,
        g->truncateds_offset, g->resets_offset,     g->seeds_offset,       g->final_obs_offset,
        g->infos_offset,      g->info_names_offset, g->description_offset, g->cmd_s2c_offset,
        g->cmd_c2s_offset,    g->image_offset,
    };
    const uint64_t sizes[] = {60, 40, 20, 5, 5, 5, 40, 60, 80, 128, 5, 4224, 4224, 40};
    uint64_t at = LK_HEADER_SIZE;
    CHECK(g->obs_offset == LK_HEADER_SIZE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK(offsets[i] == at);
        at += rounded(sizes[i]);
    }
    CHECK((uint8_t *)regions.obs == base + g->obs_offset);
    CHECK((uint8_t *)regions.actions == base + g->act_offset);
    CHECK((uint8_t *)regions.resets == base + g->resets_offset);
    CHECK((uint8_t *)regions.seeds == base + g->seeds_offset);
    CHECK(memcmp(base + g->description_offset, "hello", 5) == 0);
    CHECK(memcmp(base + g->info_names_offset, "speed", 6) == 0);
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

static void a_failed_look_leaves_nothing(void) {
    struct lk_step_config config;
    struct lk_step_state state;
    const uint8_t *bytes = (const uint8_t *)&config;
    memset(&config, 7, sizeof config);
    memset(&state, 7, sizeof state);
    CHECK_STATUS(LK_E_NOT_FOUND,
                 lk_step_inspect("lanekit-step-nobody-0123456789abcdef", &config, &state));
    for (size_t i = 0; i < sizeof config; i++) {
        CHECK(bytes[i] == 0);
    }
    bytes = (const uint8_t *)&state;
    for (size_t i = 0; i < sizeof state; i++) {
        CHECK(bytes[i] == 0);
    }
}

static void names_of_infos_must_end(void) {
    char run[64], names[2 * LK_STEP_INFO_NAME];
    lk_step_server *server;
    struct lk_step_config config = good();
    config.info_count = 2;
    for (size_t bad = 0; bad < 2; bad++) {
        memset(names, 0, sizeof names);
        memset(names + bad * LK_STEP_INFO_NAME, 'x', LK_STEP_INFO_NAME);
        CHECK_STATUS(LK_E_INVALID,
                     lk_step_create(&server, fresh_run(run), strlen(run), &config, names, ""));
    }
}

static void a_client_whose_server_left_is_told_so(void) {
    char run[64];
    lk_step_server *server;
    lk_step_client *client;
    struct lk_step_exchange exchange;
    struct lk_step_config config = good();
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, "", ""));
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK_STATUS(LK_E_INVALID, lk_step_send(client, LK_STEP_RESET + 1, &exchange));
    CHECK_STATUS(LK_OK, lk_step_server_close(server));
    CHECK_STATUS(LK_E_PEER_LOST, lk_step_send(client, LK_STEP_STEP, &exchange));
    CHECK_STATUS(LK_E_PEER_LOST, lk_step_step(client, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(0, lk_step_under_way(client));
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

static void a_closed_handle_answers_so_to_every_call(void) {
    char run[64], reason[8];
    lk_step_server *server;
    lk_step_client *client;
    lk_segment *segment;
    struct lk_step_regions regions;
    struct lk_step_exchange exchange;
    struct lk_step_state state;
    struct lk_step_config config = good();
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, "", ""));
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    for (int twice = 0; twice < 2; twice++) {
        CHECK_STATUS(LK_OK, lk_step_client_close(client));
        CHECK_STATUS(LK_OK, lk_step_server_close(server));
    }
    CHECK_STATUS(LK_E_CLOSED, lk_step_wait_actions(server, 0, LK_WAIT_HYBRID, &exchange));
    CHECK_STATUS(LK_E_CLOSED, lk_step_commit(server));
    CHECK_STATUS(LK_E_CLOSED, lk_step_fail(server, "no", 2));
    CHECK_STATUS(LK_E_CLOSED, lk_step_server_regions(server, &segment, &regions));
    CHECK_STATUS(LK_E_CLOSED, lk_step_server_state(server, &state));
    CHECK_STATUS(LK_E_CLOSED, lk_step_send(client, LK_STEP_STEP, &exchange));
    CHECK_STATUS(LK_E_CLOSED, lk_step_receive(client, 0, LK_WAIT_HYBRID, &exchange));
    CHECK_STATUS(LK_E_CLOSED, lk_step_step(client, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_E_CLOSED, lk_step_client_config(client, &config));
    CHECK_STATUS(LK_E_CLOSED, lk_step_client_regions(client, &segment, &regions));
    CHECK_STATUS(LK_E_CLOSED, lk_step_client_state(client, &state));
    CHECK_STATUS(LK_E_CLOSED, lk_step_under_way(client));
    CHECK_STATUS(LK_E_CLOSED, lk_step_failure(client, reason, sizeof reason));
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

int main(void) {
    every_limit_is_kept();
    regions_follow_each_other();
    the_header_says_where_each_region_is();
    a_failed_look_leaves_nothing();
    names_of_infos_must_end();
    a_client_whose_server_left_is_told_so();
    a_closed_handle_answers_so_to_every_call();
    return 0;
}
