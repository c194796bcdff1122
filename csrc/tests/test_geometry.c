/* A geometry found in a segment is used only if it is exactly what its own sizes make of it: every
 * offset and derived size that differs, by a line or by a byte, is refused by whoever attaches. */
#include "check.h"
#include "lk_layout.h"
#include "lk_segment.h"

/* Attach or inspect, and say what came of it. */
struct look {
    const char *run;
    char name[160];
    int (*at)(const struct look *look);
};

static void refuse_every_change(const struct look *look, void *geometry, const size_t *fields,
                                size_t count) {
    const int64_t changes[] = {1, -1, 64, -64, 4096, INT64_MIN};
    CHECK_STATUS(LK_OK, look->at(look));
    for (size_t i = 0; i < count; i++) {
        uint64_t right, wrong;
        uint8_t *field = (uint8_t *)geometry + fields[i];
        memcpy(&right, field, sizeof right);
        for (size_t j = 0; j < sizeof changes / sizeof *changes; j++) {
            wrong = right + (uint64_t)changes[j];
            memcpy(field, &wrong, sizeof wrong);
            CHECK_STATUS(LK_E_BAD_GEOMETRY, look->at(look));
        }
        memcpy(field, &right, sizeof right);
    }
    CHECK_STATUS(LK_OK, look->at(look));
}

#define NAME_LOOK(look, kind, run_id)                                                              \
    do {                                                                                           \
        (look).run = run_id;                                                                       \
        CHECK_STATUS(                                                                              \
            LK_OK, lk_segment_name(kind, run_id, strlen(run_id), (look).name, sizeof(look).name)); \
    } while (0)

#define REFUSE(look, geometry, ...)                                                        \
    do {                                                                                   \
        const size_t fields_[] = {__VA_ARGS__};                                            \
        refuse_every_change(&(look), geometry, fields_, sizeof fields_ / sizeof *fields_); \
    } while (0)

/* --- the fast lane ---------------------------------------------------------------------------- */

static int attach_frames(const struct look *look) {
    lk_frame_reader *reader;
    int status = lk_frame_attach(&reader, look->run, strlen(look->run), 0, NULL);
    if (status == LK_OK) {
        lk_frame_reader_free(reader);
    }
    return status;
}

static int inspect_frames(const struct look *look) {
    struct lk_frame_status status;
    return lk_frame_inspect(look->name, &status);
}

static void frames(void) {
    char run[64];
    struct look look;
    lk_frame_writer *writer;
    lk_segment *segment;
    void *pixels;
    struct lk_frame_config config = small_rgb(3);
    fresh_run(run);
    NAME_LOOK(look, LK_KIND_FRAME, run);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_writer_view(writer, 0, &segment, &pixels));
    struct lk_frame_header *header = lk_segment_base(segment);
    int (*const looks[])(const struct look *) = {attach_frames, inspect_frames};
    for (int i = 0; i < 2; i++) {
        look.at = looks[i];
        REFUSE(look, &header->geometry, offsetof(struct lk_frame_geometry, payload_size),
               offsetof(struct lk_frame_geometry, slot_stride),
               offsetof(struct lk_frame_geometry, slots_offset),
               offsetof(struct lk_frame_geometry, metadata_offset));
    }
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

/* --- the step lane ---------------------------------------------------------------------------- */

static int attach_steps(const struct look *look) {
    lk_step_client *client;
    int status = lk_step_attach(&client, look->run, strlen(look->run), NULL);
    if (status == LK_OK) {
        lk_step_client_free(client);
    }
    return status;
}

static int inspect_steps(const struct look *look) {
    struct lk_step_config config;
    struct lk_step_state state;
    return lk_step_inspect(look->name, &config, &state);
}

static void steps(void) {
    static const char names[2 * LK_STEP_INFO_NAME] = "speed";
    char run[64];
    struct look look;
    lk_step_server *server;
    lk_segment *segment;
    struct lk_step_regions regions;
    struct lk_step_config config = {
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
        .final_obs = 1,
        .info_count = 2,
        .description_size = 5,
        .image_width = 4,
        .image_height = 3,
        .image_channels = 3,
        .command_ring_size = 4096,
    };
    fresh_run(run);
    NAME_LOOK(look, LK_KIND_STEP, run);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, names, "hello"));
    CHECK_STATUS(LK_OK, lk_step_server_regions(server, &segment, &regions));
    struct lk_step_header *header = lk_segment_base(segment);
    int (*const looks[])(const struct look *) = {attach_steps, inspect_steps};
    for (int i = 0; i < 2; i++) {
        look.at = looks[i];
        REFUSE(look, &header->geometry, offsetof(struct lk_step_geometry, obs_offset),
               offsetof(struct lk_step_geometry, act_offset),
               offsetof(struct lk_step_geometry, rewards_offset),
               offsetof(struct lk_step_geometry, dones_offset),
               offsetof(struct lk_step_geometry, truncateds_offset),
               offsetof(struct lk_step_geometry, resets_offset),
               offsetof(struct lk_step_geometry, seeds_offset),
               offsetof(struct lk_step_geometry, final_obs_offset),
               offsetof(struct lk_step_geometry, infos_offset),
               offsetof(struct lk_step_geometry, info_names_offset),
               offsetof(struct lk_step_geometry, description_offset),
               offsetof(struct lk_step_geometry, cmd_s2c_offset),
               offsetof(struct lk_step_geometry, cmd_c2s_offset),
               offsetof(struct lk_step_geometry, cmd_ring_size),
               offsetof(struct lk_step_geometry, image_offset));
    }
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

/* --- the trajectory lane ---------------------------------------------------------------------- */

static int attach_records(const struct look *look) {
    lk_traj_writer *writer;
    int status = lk_traj_attach(&writer, look->run, strlen(look->run), NULL, 0, 0, 0, NULL);
    if (status == LK_OK) {
        lk_traj_writer_free(writer);
    }
    return status;
}

static int inspect_records(const struct look *look) {
    struct lk_traj_status status;
    return lk_traj_inspect(look->name, &status, NULL, NULL);
}

static void records(void) {
    char run[64];
    struct look look;
    lk_traj_reader *reader;
    lk_segment *segment;
    struct lk_traj_config config = {.rings = 2, .fields = 1, .ring_size = 4096};
    struct lk_traj_field field = {.name = "score", .dtype = "<f8", .item_size = 8};
    fresh_run(run);
    NAME_LOOK(look, LK_KIND_TRAJ, run);
    CHECK_STATUS(LK_OK, lk_traj_create(&reader, run, strlen(run), &config, &field));
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
    struct lk_traj_header *header = lk_segment_base(segment);
    int (*const looks[])(const struct look *) = {attach_records, inspect_records};
    for (int i = 0; i < 2; i++) {
        look.at = looks[i];
        REFUSE(look, &header->geometry, offsetof(struct lk_traj_geometry, ring_size),
               offsetof(struct lk_traj_geometry, schema_offset),
               offsetof(struct lk_traj_geometry, control_offset),
               offsetof(struct lk_traj_geometry, data_offset));
        /* A smaller record_max is a lane's own choice; a larger one would not fit the ring. */
        header->geometry.record_max++;
        CHECK_STATUS(LK_E_BAD_GEOMETRY, look.at(&look));
        header->geometry.record_max--;
    }
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
}

int main(void) {
    frames();
    steps();
    records();
    return 0;
}
