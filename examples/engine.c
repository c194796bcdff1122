/*
 * engine.c: a simulation engine in C, served to a trainer through a step lane.
 *
 *   engine NAME [ENVIRONMENTS]          until SIGTERM; then StepClient.attach(NAME) in Python
 *
 * Each environment is a mass on a spring that the action pushes. Its state is its observation, so
 * the engine simulates right where the trainer reads: nothing is copied.
 */
#include <lanekit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mass {
    float position;
    float velocity;
};

static void step(struct mass *mass, float push) {
    mass->velocity += (push - mass->position) * 0.05f;
    mass->position += mass->velocity * 0.05f;
}

static float start(uint8_t reset, uint64_t seed) {
    return reset == LK_RESET_SEEDED ? (float)(seed % 1000) / 1000.0f - 0.5f : 0.0f;
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "engine";
    struct lk_step_config config = {.halves = 1, .obs_size = 2, .act_size = 1};
    config.num_envs = count > 2 ? (uint32_t)strtoul(arguments[2], NULL, 10) : 16;
    config.obs_item_size = config.act_item_size = config.reward_size = sizeof(float);
    strcpy(config.obs_dtype, "<f4"); /* as numpy writes float32 */
    strcpy(config.act_dtype, "<f4");
    lk_process_protect(); /* so that SIGTERM and SIGINT remove the lane */
    lk_step_server *server;
    int status = lk_step_create(&server, name, strlen(name), &config, NULL, NULL);
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", name, lk_status_name(status));
        return 1;
    }
    lk_segment *segment;
    struct lk_step_regions lane;
    lk_step_server_regions(server, &segment, &lane);
    struct mass *masses = lane.obs;
    const float *pushes = lane.actions;
    float *rewards = lane.rewards;

    /* LK_E_PEER_LOST: the trainer died; the next call waits for its successor. */
    struct lk_step_exchange asked;
    while ((status = lk_step_wait_actions(server, UINT64_MAX, LK_WAIT_HYBRID, &asked)) >= 0 ||
           status == LK_E_PEER_LOST) {
        for (uint32_t i = 0; status == 1 && i < config.num_envs; i++) {
            if (lane.resets[i] != LK_RESET_NO) {
                masses[i] = (struct mass){.position = start(lane.resets[i], lane.seeds[i])};
            } else if (asked.request == LK_STEP_STEP) {
                step(&masses[i], pushes[i]);
            }
            rewards[i] = -masses[i].position * masses[i].position;
            lane.dones[i] = masses[i].position > 2.0f || masses[i].position < -2.0f;
        }
        if (status == 1 && lk_step_commit(server) < 0) {
            break;
        }
    }
    lk_segment_release(segment);
    lk_step_server_unlink(server);
    lk_step_server_free(server);
    return 1; /* the lane was taken from us */
}
