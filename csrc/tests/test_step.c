/* The step lane between two handles of one process: what each call promises. */
#include "check.h"

#include "lk_layout.h"

static struct lk_step_config small(uint32_t halves) {
    return (struct lk_step_config){
        .mode = LK_STEP_TRAINING,
        .halves = halves,
        .num_envs = 5,
        .obs_size = 3,
        .act_size = 2,
        .obs_item_size = 4,
        .act_item_size = 4,
        .reward_size = 4,
        .obs_dtype = "<f4",
        .act_dtype = "<f4",
        .final_obs = 1,
        .info_count = 2,
        .description_size = 5,
        .image_width = 4,
        .image_height = 3,
        .image_channels = 3,
        .command_ring_size = 4096,
    };
}

static const char names[2 * LK_STEP_INFO_NAME] = "speed";
static const uint64_t soon = 20000000;

static lk_step_server *serve(const char *run, uint32_t halves, struct lk_step_regions *regions) {
    lk_step_server *server;
    lk_segment *segment;
    struct lk_step_config config = small(halves);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, names, "hello"));
    CHECK_STATUS(LK_OK, lk_step_server_regions(server, &segment, regions));
    lk_segment_release(segment);
    return server;
}

static lk_step_client *join(const char *run, struct lk_step_regions *regions) {
    lk_step_client *client;
    lk_segment *segment;
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK_STATUS(LK_OK, lk_step_client_regions(client, &segment, regions));
    lk_segment_release(segment);
    return client;
}

static void end(lk_step_server *server, lk_step_client *client) {
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    CHECK_STATUS(LK_OK, lk_step_server_close(server));
    CHECK_STATUS(LK_OK, lk_step_server_close(server));
    lk_step_server_free(server);
}

static void an_exchange_carries_actions_there_and_observations_back(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions there, here;
    lk_step_server *server = serve(run, 1, &there);
    lk_step_client *client = join(run, &here);
    struct lk_step_exchange asked, got;
    CHECK(memcmp(here.description, "hello", 5) == 0 && strcmp(here.info_names, "speed") == 0);
    CHECK_STATUS(0, lk_step_wait_actions(server, 0, LK_WAIT_HYBRID, &asked));
    CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_commit(server));
    CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_receive(client, 0, LK_WAIT_HYBRID, &got));
    for (uint64_t n = 1; n <= 100; n++) {
        float *actions = here.actions;
        for (int i = 0; i < 10; i++) {
            actions[i] = (float)(n + (uint64_t)i);
        }
        here.resets[n % 5] = LK_RESET_SEEDED;
        here.seeds[n % 5] = n;
        CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &asked));
        CHECK(asked.number == n && asked.env_count == 5 && asked.first_env == 0);
        CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_send(client, LK_STEP_STEP, &asked));
        CHECK_STATUS(0, lk_step_receive(client, 0, LK_WAIT_BLOCK, &got));
        CHECK_STATUS(1, lk_step_wait_actions(server, soon, LK_WAIT_HYBRID, &asked));
        CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_wait_actions(server, 0, LK_WAIT_HYBRID, &asked));
        CHECK(asked.number == n && asked.request == LK_STEP_STEP);
        CHECK(there.resets[n % 5] == LK_RESET_SEEDED && there.seeds[n % 5] == n);
        CHECK(((float *)there.actions)[9] == (float)(n + 9));
        ((float *)there.obs)[14] = (float)n;
        ((float *)there.rewards)[4] = -(float)n;
        there.images[5 * 36 - 1] = (uint8_t)n;
        CHECK_STATUS(LK_OK, lk_step_commit(server));
        CHECK_STATUS(1, lk_step_receive(client, soon, LK_WAIT_HYBRID, &got));
        CHECK(got.number == n && ((float *)here.obs)[14] == (float)n);
        CHECK(((float *)here.rewards)[4] == -(float)n && here.images[5 * 36 - 1] == (uint8_t)n);
        CHECK(here.resets[n % 5] == LK_RESET_NO);
    }
    struct lk_step_state state;
    CHECK_STATUS(LK_OK, lk_step_client_state(client, &state));
    CHECK(state.sent == 100 && state.completed == 100 && state.client_pid == (uint32_t)getpid());
    end(server, client);
}

static void halves_take_turns(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions there, here;
    lk_step_server *server = serve(run, 2, &there);
    lk_step_client *client = join(run, &here);
    struct lk_step_exchange asked, got;
    CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_step(client, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_RESET, &asked));
    CHECK(asked.half == 0 && asked.first_env == 0 && asked.env_count == 3);
    for (uint64_t n = 1; n <= 50; n++) {
        CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &asked));
        CHECK(asked.number == n + 1);
        CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_send(client, LK_STEP_STEP, &got));
        here.resets[asked.first_env] = LK_RESET_PLAIN; /* of the half that is not being served */
        CHECK_STATUS(1, lk_step_wait_actions(server, soon, LK_WAIT_HYBRID, &got));
        CHECK(got.number == n && got.half == (n - 1) % 2);
        CHECK(got.first_env == (got.half == 0 ? 0 : 3) && got.env_count == (got.half == 0 ? 3 : 2));
        CHECK(got.request == (n == 1 ? LK_STEP_RESET : LK_STEP_STEP));
        CHECK_STATUS(LK_OK, lk_step_commit(server));
        CHECK(there.resets[asked.first_env] == LK_RESET_PLAIN);
        CHECK_STATUS(1, lk_step_receive(client, soon, LK_WAIT_HYBRID, &got));
        CHECK(got.number == n);
    }
    end(server, client);
}

static void one_client_at_a_time(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions there, here;
    struct lk_step_exchange exchange;
    lk_step_client *second;
    CHECK_STATUS(LK_E_NOT_FOUND, lk_step_attach(&second, run, strlen(run), NULL));
    lk_step_server *server = serve(run, 1, &there);
    lk_step_client *client = join(run, &here);
    CHECK_STATUS(LK_E_TAKEN, lk_step_attach(&second, run, strlen(run), NULL));
    here.resets[2] = LK_RESET_PLAIN;
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &exchange));
    lk_step_client_free(client);
    /* What it sent is completed first. */
    CHECK_STATUS(LK_E_NOT_READY, lk_step_attach(&second, run, strlen(run), NULL));
    CHECK_STATUS(1, lk_step_wait_actions(server, soon, LK_WAIT_HYBRID, &exchange));
    CHECK_STATUS(LK_E_NOT_READY, lk_step_attach(&second, run, strlen(run), NULL));
    CHECK_STATUS(LK_OK, lk_step_commit(server));
    there.resets[3] = LK_RESET_PLAIN; /* as if it had died while it wrote flags */
    second = join(run, &here);
    CHECK(here.resets[3] == LK_RESET_NO);
    CHECK_STATUS(LK_OK, lk_step_send(second, LK_STEP_STEP, &exchange));
    CHECK(exchange.number == 2);
    end(server, second);
}

static void a_server_that_leaves_says_why(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions there, here;
    struct lk_step_exchange exchange;
    char reason[LK_STEP_FAILURE_MAX];
    lk_step_server *server = serve(run, 1, &there);
    lk_step_client *client = join(run, &here);
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &exchange));
    CHECK_STATUS(0, lk_step_failure(client, reason, sizeof reason));
    CHECK_STATUS(LK_OK, lk_step_fail(server, "no fuel", 7));
    CHECK_STATUS(LK_E_INVALIDATED, lk_step_wait_actions(server, 0, LK_WAIT_BLOCK, &exchange));
    CHECK_STATUS(LK_E_PEER_LOST, lk_step_receive(client, soon, LK_WAIT_BLOCK, &exchange));
    CHECK_STATUS(7, lk_step_failure(client, reason, sizeof reason));
    CHECK(memcmp(reason, "no fuel", 7) == 0);
    CHECK_STATUS(3, lk_step_failure(client, reason, 3));
    /* A new server takes the name; the old client is told apart from it. */
    lk_step_server *next = serve(run, 1, &there);
    CHECK_STATUS(LK_E_PEER_LOST, lk_step_receive(client, soon, LK_WAIT_BLOCK, &exchange));
    lk_step_client_free(client);
    lk_step_server_free(server);
    end(next, join(run, &here));
}

static void a_lane_without_extras_serves_and_ends(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions regions;
    struct lk_step_exchange exchange;
    struct lk_step_config config = small(1);
    config.final_obs = config.info_count = config.description_size = 0;
    config.image_width = config.image_height = config.image_channels = 0;
    config.command_ring_size = 0;
    lk_step_server *server;
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, NULL, NULL));
    lk_step_client *client = join(run, &regions);
    CHECK(regions.final_obs == NULL && regions.infos == NULL && regions.images == NULL);
    CHECK(lk_step_server_commands(server) == NULL && lk_step_client_commands(client) == NULL);
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &exchange));
    CHECK_STATUS(1, lk_step_wait_actions(server, soon, LK_WAIT_BLOCK, &exchange));
    CHECK_STATUS(LK_OK, lk_step_commit(server));
    CHECK_STATUS(1, lk_step_receive(client, soon, LK_WAIT_BLOCK, &exchange));
    CHECK_STATUS(LK_OK, lk_step_client_close(client));
    end(server, client);
}

static void impossible_geometry_is_refused(void) {
    struct lk_step_config good = small(1);
    CHECK(lk_step_segment_size(&good) > 0);
#define REFUSED(change)                                              \
    do {                                                             \
        struct lk_step_config bad = good;                            \
        bad.change;                                                  \
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_step_segment_size(&bad)); \
    } while (0)
    REFUSED(num_envs = 0);
    REFUSED(num_envs = UINT32_MAX);
    REFUSED(obs_size = 0);
    REFUSED(obs_size = UINT32_MAX);
    REFUSED(act_size = 0);
    REFUSED(obs_item_size = 0);
    REFUSED(act_item_size = 17);
    REFUSED(reward_size = 2);
    REFUSED(halves = 0);
    REFUSED(halves = 3);
    REFUSED(mode = 2);
    REFUSED(final_obs = 2);
    REFUSED(info_count = 5000);
    REFUSED(image_channels = 0);
    REFUSED(image_width = 1 << 20);
    REFUSED(command_ring_size = 100);
    REFUSED(command_ring_size = UINT64_MAX);
    REFUSED(description_size = UINT32_MAX);
    REFUSED(gpu_obs_mode = 9);
    good.num_envs = 1;
    REFUSED(halves = 2);
}

static void words_that_no_peer_writes_are_refused(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions there, here;
    struct lk_step_exchange exchange;
    lk_step_server *server = serve(run, 1, &there);
    lk_step_client *client = join(run, &here);
    struct lk_step_header *header =
        (struct lk_step_header *)(void *)((uint8_t *)here.obs - LK_HEADER_SIZE);
    atomic_store(&header->action_seq, 5);
    CHECK_STATUS(LK_E_CORRUPT, lk_step_wait_actions(server, 0, LK_WAIT_BLOCK, &exchange));
    atomic_store(&header->action_seq, 0);
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &exchange));
    header->requests[0] = 77;
    CHECK_STATUS(LK_E_CORRUPT, lk_step_wait_actions(server, 0, LK_WAIT_BLOCK, &exchange));
    header->requests[0] = LK_STEP_STEP;
    atomic_store(&header->frame_seq, 9);
    CHECK_STATUS(LK_E_CORRUPT, lk_step_receive(client, 0, LK_WAIT_BLOCK, &exchange));
    end(server, client);
}

int main(void) {
    an_exchange_carries_actions_there_and_observations_back();
    halves_take_turns();
    one_client_at_a_time();
    a_server_that_leaves_says_why();
    a_lane_without_extras_serves_and_ends();
    impossible_geometry_is_refused();
    words_that_no_peer_writes_are_refused();
    return 0;
}
