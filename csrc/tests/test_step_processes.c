/* The step lane between two processes: every exchange once and whole, however the two wait, and
 * over the death of either. */
#include "check.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { ENVS = 33, EXCHANGES = 2000 };
static const uint64_t patience = UINT64_C(60000000000);

static struct lk_step_config config_of(uint32_t halves) {
    return (struct lk_step_config){
        .halves = halves,
        .num_envs = ENVS,
        .obs_size = 1,
        .act_size = 1,
        .obs_item_size = 8,
        .act_item_size = 8,
        .reward_size = 8,
        .obs_dtype = "<u8",
        .act_dtype = "<u8",
    };
}

/* What environment `env` is told in exchange `number`. */
static uint64_t action_of(uint64_t number, uint32_t env) {
    return number * UINT64_C(0x9E3779B97F4A7C15) + env;
}

static void fill(uint64_t *actions, const struct lk_step_exchange *next) {
    for (uint32_t i = next->first_env; i < next->first_env + next->env_count; i++) {
        actions[i] = action_of(next->number, i);
    }
}

static struct lk_step_exchange exchange_of(uint32_t halves, uint64_t number) {
    uint32_t first = halves == 2 ? (ENVS + 1) / 2 : ENVS;
    bool second = halves == 2 && number % 2 == 0;
    return (struct lk_step_exchange){.number = number,
                                     .first_env = second ? first : 0,
                                     .env_count = second ? ENVS - first : first};
}

static void train(const char *run, uint32_t halves, int strategy, uint64_t from, uint64_t count) {
    lk_step_client *client;
    lk_segment *segment;
    struct lk_step_regions lane;
    struct lk_step_exchange sent, got;
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK_STATUS(LK_OK, lk_step_client_regions(client, &segment, &lane));
    const uint64_t *obs = lane.obs;
    for (uint64_t n = from; n < from + count + halves - 1; n++) {
        if (n < from + count) {
            struct lk_step_exchange next = exchange_of(halves, n);
            fill(lane.actions, &next);
            CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &sent));
            CHECK(sent.number == n && sent.first_env == next.first_env);
        }
        if (n + 1 < from + halves) {
            continue; /* the other half goes out before the first comes back */
        }
        CHECK_STATUS(1, lk_step_receive(client, patience, strategy, &got));
        CHECK(got.number == n + 1 - halves);
        for (uint32_t i = got.first_env; i < got.first_env + got.env_count; i++) {
            CHECK(obs[i] == action_of(got.number, i) + 1);
        }
    }
    lk_segment_release(segment);
    lk_step_client_free(client);
}

static void serve(lk_step_server *server, const struct lk_step_regions *lane, int strategy,
                  uint64_t from, uint64_t count) {
    const uint64_t *actions = lane->actions;
    uint64_t *obs = lane->obs;
    for (uint64_t n = from; n < from + count; n++) {
        struct lk_step_exchange asked;
        int status;
        while ((status = lk_step_wait_actions(server, patience, strategy, &asked)) ==
               LK_E_PEER_LOST) {
        }
        CHECK_STATUS(1, status);
        CHECK(asked.number == n);
        for (uint32_t i = asked.first_env; i < asked.first_env + asked.env_count; i++) {
            CHECK(actions[i] == action_of(n, i));
            obs[i] = actions[i] + 1;
        }
        CHECK_STATUS(LK_OK, lk_step_commit(server));
    }
}

static lk_step_server *create(const char *run, uint32_t halves, struct lk_step_regions *lane) {
    lk_step_server *server;
    lk_segment *segment;
    struct lk_step_config config = config_of(halves);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, NULL, NULL));
    CHECK_STATUS(LK_OK, lk_step_server_regions(server, &segment, lane));
    lk_segment_release(segment);
    return server;
}

static void end(lk_step_server *server) {
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

static void every_exchange_is_whole_and_happens_once(uint32_t halves, int strategy) {
    /* Two that spin on one core wait for the end of each other's time slices. */
    uint64_t count = strategy == LK_WAIT_SPIN ? EXCHANGES / 10 : EXCHANGES;
    char run[64];
    fresh_run(run);
    struct lk_step_regions lane;
    lk_step_server *server = create(run, halves, &lane);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        train(run, halves, strategy, 1, count);
        _exit(0);
    }
    serve(server, &lane, strategy, 1, count);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    end(server);
}

static void a_killed_client_is_followed_by_the_next_one(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions lane;
    struct lk_step_exchange asked;
    lk_step_server *server = create(run, 1, &lane);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        train(run, 1, LK_WAIT_BLOCK, 1, EXCHANGES); /* waits for the eleventh for ever */
        _exit(0);
    }
    serve(server, &lane, LK_WAIT_HYBRID, 1, 10);
    CHECK_STATUS(1, lk_step_wait_actions(server, patience, LK_WAIT_BLOCK, &asked));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK_STATUS(LK_OK, lk_step_commit(server));
    CHECK_STATUS(LK_E_PEER_LOST, lk_step_wait_actions(server, patience, LK_WAIT_BLOCK, &asked));
    CHECK_STATUS(0, lk_step_wait_actions(server, 0, LK_WAIT_BLOCK, &asked));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        train(run, 1, LK_WAIT_HYBRID, 12, 100);
        _exit(0);
    }
    serve(server, &lane, LK_WAIT_HYBRID, 12, 100);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    end(server);
}

static void a_killed_server_is_noticed(void) {
    char run[64];
    fresh_run(run);
    struct lk_step_regions lane;
    struct lk_step_exchange exchange;
    lk_step_client *client;
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lk_step_server *server = create(run, 1, &lane);
        CHECK(write(ready[1], "x", 1) == 1);
        serve(server, &lane, LK_WAIT_BLOCK, 1, EXCHANGES);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK(kill(child, SIGSTOP) == 0);
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_RESET, &exchange));
    CHECK_STATUS(0, lk_step_receive(client, 1000000, LK_WAIT_BLOCK, &exchange));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK_STATUS(LK_E_PEER_LOST, lk_step_receive(client, patience, LK_WAIT_BLOCK, &exchange));
    end(create(run, 1, &lane)); /* its name is free */
    lk_step_client_free(client);
}

int main(void) {
    for (int strategy = LK_WAIT_HYBRID; strategy <= LK_WAIT_BLOCK; strategy++) {
        every_exchange_is_whole_and_happens_once(1, strategy);
        every_exchange_is_whole_and_happens_once(2, strategy);
    }
    a_killed_client_is_followed_by_the_next_one();
    a_killed_server_is_noticed();
    return 0;
}
