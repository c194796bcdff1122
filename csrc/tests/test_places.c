/*
 * Places in a lane: one holder each, marked with its pid; free and unmarked as soon as the holder
 * closes its handle, although views of the memory may stay for longer.
 */
#include "check.h"
#include "lk_layout.h"
#include "lk_lock.h"
#include "lk_segment.h"

#include <fcntl.h>

static enum lk_liveness holder(uint32_t kind, const char *run, uint32_t role) {
    char name[160];
    struct lk_lock lock;
    CHECK_STATUS(LK_OK, lk_segment_name(kind, run, strlen(run), name, sizeof name));
    CHECK(lk_lock_open(&lock, name, O_RDWR) == 0);
    enum lk_liveness found = lk_lock_holder(lock.fd, role);
    lk_lock_close(&lock);
    return found;
}

static void a_ring_has_one_producer(void) {
    char run[64];
    lk_traj_reader *reader;
    lk_traj_writer *writer, *second;
    lk_segment *view;
    struct lk_traj_config config = {.rings = 2, .fields = 1, .ring_size = 4096};
    struct lk_traj_field field = {.name = "score", .dtype = "<f8", .item_size = 8};
    struct lk_traj_ring_status rings[2];
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_traj_create(&reader, run, strlen(run), &config, &field));
    CHECK_STATUS(LK_OK, lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, 0, NULL));
    CHECK_STATUS(LK_OK, lk_traj_attach(&second, run, strlen(run), NULL, 0, 0, 0, NULL));
    CHECK_STATUS(LK_OK, lk_traj_writer_view(writer, &view));
    lk_traj_writer_free(writer);
    CHECK_STATUS(LK_OK, lk_traj_reader_rings(reader, rings));
    CHECK(rings[0].producer_pid == 0 && rings[0].producer == LK_DEAD);
    CHECK(rings[1].producer_pid == (uint32_t)getpid() && rings[1].producer == LK_ALIVE);
    CHECK_STATUS(LK_DEAD, holder(LK_KIND_TRAJ, run, LK_ROLE_PRODUCER));
    CHECK_STATUS(LK_ALIVE, holder(LK_KIND_TRAJ, run, LK_ROLE_PRODUCER + 1));
    lk_segment_release(view);
    lk_traj_writer_free(second);
    CHECK_STATUS(LK_DEAD, holder(LK_KIND_TRAJ, run, LK_ROLE_PRODUCER + 1));
    CHECK_STATUS(LK_ALIVE, holder(LK_KIND_TRAJ, run, LK_ROLE_OWNER));
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &view));
    CHECK_STATUS(LK_OK, lk_traj_reader_close(reader));
    CHECK_STATUS(LK_DEAD, holder(LK_KIND_TRAJ, run, LK_ROLE_OWNER));
    lk_segment_release(view);
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
}

static void a_lane_has_one_client_and_each_has_a_mark_of_its_own(void) {
    char run[64];
    lk_step_server *server;
    lk_step_client *client;
    lk_segment *segment, *view;
    struct lk_step_regions regions;
    struct lk_step_config config = {
        .mode = LK_STEP_TRAINING,
        .halves = 1,
        .num_envs = 1,
        .obs_size = 1,
        .act_size = 1,
        .obs_item_size = 4,
        .act_item_size = 4,
        .reward_size = 4,
        .obs_dtype = "<f4",
        .act_dtype = "<f4",
    };
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, "", ""));
    CHECK_STATUS(LK_OK, lk_step_server_regions(server, &segment, &regions));
    _Atomic uint64_t *place = &((struct lk_step_header *)lk_segment_base(segment))->client;
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
        CHECK(atomic_load(place) >> 32 == (uint64_t)getpid());
        CHECK(atomic_load(place) != before); /* the same process, but another client */
        before = atomic_load(place);
        CHECK_STATUS(LK_OK, lk_step_client_regions(client, &view, &regions));
        lk_step_client_free(client);
        CHECK(atomic_load(place) == 0);
        CHECK_STATUS(LK_DEAD, holder(LK_KIND_STEP, run, LK_ROLE_CLIENT));
        lk_segment_release(view);
    }
    CHECK_STATUS(LK_OK, lk_step_server_close(server));
    CHECK_STATUS(LK_DEAD, holder(LK_KIND_STEP, run, LK_ROLE_OWNER));
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

static void an_entry_has_one_viewer(void) {
    char run[64];
    lk_frame_writer *writer;
    lk_frame_reader *reader, *second;
    lk_segment *segment;
    void *pixels;
    struct lk_frame_config config = small_rgb(2);
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_writer_view(writer, 0, &segment, &pixels));
    struct lk_frame_header *header = lk_segment_base(segment);
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), UINT64_C(1000000000), NULL));
    CHECK_STATUS(LK_OK, lk_frame_attach(&second, run, strlen(run), UINT64_C(1000000000), NULL));
    CHECK(atomic_load(&header->viewers[0].pid) == (uint64_t)getpid());
    CHECK(atomic_load(&header->viewers[1].pid) == (uint64_t)getpid());
    lk_frame_reader_free(reader);
    CHECK(atomic_load(&header->viewers[0].pid) == 0);
    CHECK_STATUS(LK_DEAD, holder(LK_KIND_FRAME, run, LK_ROLE_VIEWER));
    CHECK_STATUS(LK_ALIVE, holder(LK_KIND_FRAME, run, LK_ROLE_VIEWER + 1));
    CHECK(atomic_load(&header->watched_until_ns) != 0); /* the other one watches on */
    lk_frame_reader_free(second);
    CHECK(atomic_load(&header->watched_until_ns) == 0);
    CHECK_STATUS(LK_OK, lk_frame_writer_close(writer));
    CHECK_STATUS(LK_DEAD, holder(LK_KIND_FRAME, run, LK_ROLE_OWNER));
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

int main(void) {
    a_ring_has_one_producer();
    a_lane_has_one_client_and_each_has_a_mark_of_its_own();
    an_entry_has_one_viewer();
    return 0;
}
