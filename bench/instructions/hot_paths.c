/*
 * hot_paths.c: each call that a lane makes for every frame, step or record, a given number of
 * times, in one thread. Callgrind counts its instructions; see __main__.py.
 *
 * usage: hot_paths PATH COUNT
 */
#include "lanekit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tiny, so that the copy does not hide what is around it. */
#define SIDE 4

static char name[64];

static void must(int64_t status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", what, lk_status_name((int)status));
        exit(1);
    }
}

static void frames(long count, int read) {
    static uint8_t pixels[SIDE * SIDE];
    struct lk_frame_config config = {
        .width = SIDE, .height = SIDE, .channels = 1, .pixel_format = LK_PIXEL_GRAY, .capacity = 8};
    struct lk_frame_info info;
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    must(lk_frame_create(&writer, name, strlen(name), &config), "create");
    must(lk_frame_attach(&reader, name, strlen(name), 900000000, NULL), "attach");
    must(lk_frame_publish(writer, pixels, sizeof pixels, NULL, 0), "publish");
    for (long i = 0; i < count; i++) {
        if (read) {
            must(lk_frame_read(reader, LK_FRAME_NEWEST, pixels, sizeof pixels, NULL, 0, &info),
                 "read");
        } else {
            must(lk_frame_publish(writer, pixels, sizeof pixels, NULL, 0), "publish");
        }
    }
    lk_frame_reader_free(reader);
    must(lk_frame_writer_unlink(writer), "unlink");
    lk_frame_writer_free(writer);
}

static void steps(long count, int commands) {
    struct lk_step_config config = {.num_envs = 16,
                                    .halves = 1,
                                    .obs_size = 4,
                                    .act_size = 2,
                                    .obs_item_size = 4,
                                    .act_item_size = 4,
                                    .reward_size = 4,
                                    .obs_dtype = "<f4",
                                    .act_dtype = "<f4",
                                    .command_ring_size = 4096};
    struct lk_step_exchange exchange;
    lk_step_server *server;
    lk_step_client *client;
    char message[64] = "a command of the usual size";
    size_t size;
    must(lk_step_create(&server, name, strlen(name), &config, "", ""), "create");
    must(lk_step_attach(&client, name, strlen(name), NULL), "attach");
    for (long i = 0; i < count; i++) {
        if (commands) {
            must(lk_cmd_send(lk_step_client_commands(client), message, sizeof message, 0,
                             LK_WAIT_HYBRID),
                 "send");
            must(lk_cmd_receive(lk_step_server_commands(server), message, sizeof message, &size, 0,
                                LK_WAIT_HYBRID),
                 "receive");
        } else {
            must(lk_step_send(client, LK_STEP_STEP, &exchange), "send");
            must(lk_step_wait_actions(server, 0, LK_WAIT_HYBRID, &exchange), "wait");
            must(lk_step_commit(server), "commit");
            must(lk_step_receive(client, 0, LK_WAIT_HYBRID, &exchange), "receive");
        }
    }
    lk_step_client_free(client);
    must(lk_step_server_unlink(server), "unlink");
    lk_step_server_free(server);
}

/* One record there, and its room back: a lane that nobody empties would only be filled. */
static void records(long count) {
    static const float rows[SIDE * SIDE];
    struct lk_traj_config config = {.rings = 1, .fields = 2, .ring_size = 65536};
    struct lk_traj_field fields[2] = {
        {.name = "tokens", .dtype = "<i4", .item_size = 4, .flags = LK_TRAJ_RAGGED},
        {.name = "score", .dtype = "<f4", .item_size = 4}};
    struct lk_traj_array put[2] = {{rows, SIDE * SIDE}, {rows, 1}};
    struct lk_traj_array taken[2];
    struct lk_traj_record record;
    lk_traj_reader *reader;
    lk_traj_writer *writer;
    uint32_t spoiled;
    must(lk_traj_create(&reader, name, strlen(name), &config, fields), "create");
    must(lk_traj_attach(&writer, name, strlen(name), fields, 2, 0, 900000000, NULL), "attach");
    for (long i = 0; i < count; i++) {
        must(lk_traj_put(writer, put, "meta", 4, 0), "put");
        must(lk_traj_take(reader, 1, &record, taken, &spoiled), "take");
        must(lk_traj_release(reader, record.ring, record.ticket), "release");
    }
    lk_traj_writer_free(writer);
    must(lk_traj_reader_unlink(reader), "unlink");
    lk_traj_reader_free(reader);
}

int main(int argc, char **argv) {
    long count = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    snprintf(name, sizeof name, "hot-paths-%d", (int)getpid());
    if (count > 0 && strcmp(argv[1], "publish") == 0) {
        frames(count, 0);
    } else if (count > 0 && strcmp(argv[1], "read") == 0) {
        frames(count, 1);
    } else if (count > 0 && strcmp(argv[1], "step") == 0) {
        steps(count, 0);
    } else if (count > 0 && strcmp(argv[1], "command") == 0) {
        steps(count, 1);
    } else if (count > 0 && strcmp(argv[1], "put") == 0) {
        records(count);
    } else {
        fprintf(stderr, "usage: hot_paths publish|read|step|command|put COUNT\n");
        return 2;
    }
    return 0;
}
