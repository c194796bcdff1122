/* A number that is no wait strategy is refused wherever one is taken, before anything happens. */
#include "check.h"

#include "lk_layout.h"

#include <limits.h>

static const int unknown[] = {-1, LK_WAIT_BLOCK + 1, INT_MIN, INT_MAX};

static void of_a_frame_reader(int strategy) {
    char run[64];
    fresh_run(run);
    struct lk_frame_config config = small_rgb(2);
    uint8_t frame[SMALL_SIZE] = {0};
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK_STATUS(LK_E_INVALID, lk_frame_wait(reader, 0, strategy));
    CHECK_STATUS(1, lk_frame_publish(writer, frame, sizeof frame, NULL, 0));
    CHECK_STATUS(LK_E_INVALID, lk_frame_wait(reader, 0, strategy)); /* though there is a frame */
    CHECK_STATUS(1, lk_frame_wait(reader, 0, LK_WAIT_BLOCK));
    CHECK_STATUS(LK_OK, lk_frame_reader_close(reader));
    CHECK_STATUS(LK_E_INVALID, lk_frame_wait(reader, 0, strategy)); /* though it is closed */
    lk_frame_reader_free(reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

static void of_a_step_lane(int strategy) {
    char run[64];
    fresh_run(run);
    struct lk_step_config config = {
        .halves = 1,
        .num_envs = 2,
        .obs_size = 3,
        .act_size = 2,
        .obs_item_size = 4,
        .act_item_size = 4,
        .reward_size = 4,
        .command_ring_size = 4096,
    };
    lk_step_server *server;
    lk_step_client *client;
    struct lk_step_state state;
    struct lk_step_exchange asked = {.number = 77};
    size_t size;
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, NULL, NULL));
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK_STATUS(LK_E_INVALID, lk_step_step(client, 0, strategy));
    CHECK_STATUS(LK_OK, lk_step_client_state(client, &state));
    CHECK(state.sent == 0); /* nothing was sent */
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &asked));
    asked.number = 77;
    CHECK_STATUS(LK_E_INVALID, lk_step_wait_actions(server, 0, strategy, &asked));
    CHECK_STATUS(LK_E_INVALID, lk_step_receive(client, 0, strategy, &asked));
    CHECK(asked.number == 77);                              /* nothing was told */
    CHECK_STATUS(LK_E_OUT_OF_TURN, lk_step_commit(server)); /* and nothing was taken */

    lk_cmd *there = lk_step_server_commands(server);
    lk_cmd *here = lk_step_client_commands(client);
    char message[8];
    CHECK_STATUS(LK_E_INVALID, lk_cmd_send(here, "hi", 2, 0, strategy));
    CHECK_STATUS(0, lk_cmd_peek(there, &size, 0, LK_WAIT_HYBRID)); /* nothing was sent */
    CHECK_STATUS(1, lk_cmd_send(here, "hi", 2, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_E_INVALID, lk_cmd_peek(there, &size, 0, strategy));
    CHECK_STATUS(LK_E_INVALID, lk_cmd_receive(there, message, sizeof message, &size, 0, strategy));
    CHECK_STATUS(1, lk_cmd_receive(there, message, sizeof message, &size, 0, LK_WAIT_SPIN));
    CHECK(size == 2);
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

int main(void) {
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        of_a_frame_reader(unknown[i]);
        of_a_step_lane(unknown[i]);
    }
    return 0;
}
