/* The step lane and its command rings beside a peer that scribbles; see scribble.h. */
#include "scribble.h"

enum { ENVS = 5, RING = 4096, LONGEST = 300 };

static const struct lk_step_config wanted = {
    .mode = LK_STEP_TRAINING,
    .halves = 2,
    .num_envs = ENVS,
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
    .command_ring_size = RING,
};
/* Offsets of the two rings: behind everything else that the lane above has, but for the images. */
static uint64_t ring_offset;

static char run[64];
static char name[160];
static lk_step_server *server;
static lk_step_client *client;
static uint32_t halves;
static bool ended;

static void make_server(void) {
    static const char names[2 * LK_STEP_INFO_NAME] = "speed";
    struct lk_step_config config = wanted;
    config.halves = halves = 1 + (uint32_t)below(2);
    while (answer(lk_step_create(&server, run, strlen(run), &config, names, "hello")) != LK_OK) {
        remove_segment(name);
    }
    ended = false;
}

static void drop_server(void) {
    if (server != NULL) {
        answer(lk_step_server_unlink(server));
        lk_step_server_free(server);
        server = NULL;
    }
}

static void drop_client(void) {
    lk_step_client_free(client);
    client = NULL;
}

static void make_client(void) {
    ended = answer(lk_step_attach(&client, run, strlen(run), NULL)) < 0 && below(8) == 0;
}

static void begin(struct scribble_plan *plan) {
    static struct scribble_range ranges[] = {
        {0, 512, 8, 8},     /* the common header */
        {512, 1024, 8, 8},  /* geometry */
        {1024, 1032, 8, 8}, /* the client's place */
        {1088, 1112, 8, 8}, /* action_seq, frame_wake_at, requests */
        {1152, 1168, 8, 8}, /* frame_seq, action_wake_at */
        {1216, 1232, 8, 8}, /* the failure's size */
        {0, 0, 64, 16},     /* positions of the rings, and lengths in them */
        {0, 0, 8, 8},       /* everything in the rings */
    };
    struct lk_step_config images_only = wanted;
    images_only.command_ring_size = 0;
    /* Two rings and their headers make the difference; the images come behind them. */
    ring_offset = (uint64_t)lk_step_segment_size(&images_only) - 192;
    ranges[6].begin = ranges[7].begin = ring_offset;
    ranges[6].end = ranges[7].end = ring_offset + 2 * (RING + sizeof(struct lk_ring_header));
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_STEP, run, strlen(run), name, sizeof name));
    memcpy(plan->name, name, sizeof name);
    plan->ranges = ranges;
    plan->count = sizeof ranges / sizeof ranges[0];
    make_server();
    make_client();
}

static void end(void) {
    drop_client();
    drop_server();
}

static void check_exchange(const struct lk_step_exchange *exchange) {
    CHECK(exchange->half < halves && exchange->request <= LK_STEP_RESET);
    CHECK(exchange->first_env + exchange->env_count <= ENVS && exchange->env_count > 0);
}

static void touch_each(const void *region, size_t size_of_one) {
    touch(region, ENVS * size_of_one);
}

static void touch_regions(const struct lk_step_regions *regions) {
    touch_each(regions->obs, 12);
    touch_each(regions->actions, 8);
    touch_each(regions->rewards, 4);
    touch_each(regions->dones, 1);
    touch_each(regions->resets, 1);
    touch_each(regions->seeds, 8);
    touch_each(regions->final_obs, 12);
    touch_each(regions->infos, 16);
    touch(regions->info_names, (size_t)2 * LK_STEP_INFO_NAME);
    touch(regions->description, 5);
    touch_each(regions->images, 36);
}

static void exchange(void) {
    struct lk_step_exchange asked;
    int strategy = (int)below(3);
    switch (below(6)) {
    case 0:
        if (answer(lk_step_send(client, (uint32_t)below(2), &asked)) == LK_OK) {
            check_exchange(&asked);
        }
        break;
    case 1:
        if (answer(lk_step_receive(client, below(200000), strategy, &asked)) == 1) {
            check_exchange(&asked);
        }
        break;
    case 2: answer(lk_step_step(client, 0, strategy)); break;
    case 3: ended = answer(lk_step_commit(server)) == LK_E_INVALIDATED; break;
    default:
        if (answer(lk_step_wait_actions(server, below(200000), strategy, &asked)) == 1) {
            check_exchange(&asked);
            answer(lk_step_commit(server));
        }
        break;
    }
}

static void ask(void) {
    struct lk_step_config config;
    struct lk_step_regions regions;
    struct lk_step_state state;
    lk_segment *segment;
    size_t room = below(LK_STEP_FAILURE_MAX + 100);
    char *reason = exactly(room);
    int64_t status;
    switch (below(7)) {
    case 0: CHECK(answer(lk_step_under_way(client)) <= (int64_t)halves); break;
    case 1:
        if (answer(lk_step_client_state(client, &state)) == LK_OK) {
            CHECK(state.completed <= state.sent);
        }
        break;
    case 2:
        if (answer(lk_step_server_state(server, &state)) == LK_OK) {
            CHECK(state.completed <= state.sent);
        }
        break;
    case 3:
        status = answer(lk_step_failure(client, reason, room));
        CHECK(status <= (int64_t)room);
        touch(reason, status > 0 ? (size_t)status : 0);
        break;
    case 4:
        if (answer(lk_step_client_config(client, &config)) == LK_OK) {
            CHECK(config.num_envs == ENVS && config.halves == halves);
        }
        break;
    case 5:
        if (answer(lk_step_client_regions(client, &segment, &regions)) == LK_OK) {
            touch_regions(&regions);
            lk_segment_release(segment);
        }
        break;
    default:
        if (answer(lk_step_server_regions(server, &segment, &regions)) == LK_OK) {
            touch_regions(&regions);
            lk_segment_release(segment);
        }
        break;
    }
    free(reason);
}

static void command(void) {
    static const uint8_t message[LONGEST];
    lk_cmd *channel =
        below(2) == 0 ? lk_step_server_commands(server) : lk_step_client_commands(client);
    int strategy = (int)below(3);
    uint64_t timeout = below(4) == 0 ? below(100000) : 0;
    size_t room = below(4) == 0 ? below(RING) : LONGEST;
    size_t size = 0;
    uint8_t *buffer = exactly(room); /* one byte more would be outside */
    switch (below(4)) {
    case 0: answer(lk_cmd_peek(channel, &size, timeout, strategy)); break;
    case 1:
        if (answer(lk_cmd_receive(channel, buffer, room, &size, timeout, strategy)) == 1) {
            CHECK(size <= room);
            touch(buffer, size);
        }
        break;
    default: answer(lk_cmd_send(channel, message, below(LONGEST), timeout, strategy)); break;
    }
    CHECK((int64_t)size <= lk_cmd_limit(channel));
    free(buffer);
}

static void inspect(void) {
    struct lk_step_config config;
    struct lk_step_state state;
    if (answer(lk_step_inspect(name, &config, &state)) == LK_OK) {
        CHECK(state.completed <= state.sent);
    }
}

static void use(void) {
    if (ended || below(3000) == 0) {
        drop_client();
        if (below(2) == 0) {
            answer(lk_step_fail(server, "over", 4));
        }
        drop_server();
        make_server();
    }
    if (client == NULL || below(100) == 0) {
        drop_client();
        make_client();
    }
    if (client == NULL || below(200) == 0) {
        inspect();
        return;
    }
    switch (below(4)) {
    case 0: ask(); break;
    case 1: exchange(); break;
    default: command(); break;
    }
}

int main(int count, char **arguments) {
    const struct scribble_user user = {.begin = begin, .use = use, .end = end};
    return scribble_main(count, arguments, &user);
}
