/*
 * Whoever ends a lane wakes all who sleep in it. A sleeper without a wake would only look again at
 * the end of its slice; these sleep in the kernel on the very words, in processes of their own and
 * for a minute, so that nothing but a wake ends their sleep in time.
 */
#include "check.h"
#include "command_segment.h"
#include "lk_layout.h"
#include "lk_platform.h"
#include "lk_segment.h"

#include <sys/wait.h>

static const char *const names = "";

/* A process that sleeps on a word until somebody wakes it. */
static pid_t sleep_on(const _Atomic uint64_t *word) {
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint64_t deadline = lk_clock_ns() + A_MINUTE_NS;
        uint64_t value = atomic_load_explicit(word, memory_order_relaxed);
        CHECK(write(ready[1], "x", 1) == 1);
        lk_futex_wait(word, value, deadline);
        _exit(lk_clock_ns() < deadline ? 0 : 1);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    /* After that byte it blocks in one place only. */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    char state = 'R';
    while (state != 'S') {
        pause_ms(1);
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        CHECK(fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        CHECK(state != 'Z');
    }
    return child;
}

static void check_woken(pid_t sleeper) {
    int status;
    CHECK(waitpid(sleeper, &status, 0) == sleeper);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- the fast lane ---------------------------------------------------------------------------- */

static void a_frame_writer_that_goes_wakes_its_readers(int (*go)(lk_frame_writer *)) {
    char run[64];
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    lk_segment *segment;
    const void *pixels;
    struct lk_frame_config config = small_rgb(2);
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK_STATUS(LK_OK, lk_frame_reader_view(reader, 0, &segment, &pixels));
    struct lk_frame_header *header = lk_segment_base(segment);
    pid_t one = sleep_on(&header->head);
    pid_t two = sleep_on(&header->head);
    CHECK_STATUS(LK_OK, go(writer));
    check_woken(one);
    check_woken(two);
    lk_segment_release(segment);
    lk_frame_reader_free(reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

/* --- the step lane ---------------------------------------------------------------------------- */

static int fail(lk_step_server *server) {
    return lk_step_fail(server, "out of fuel", 11);
}

static void a_step_server_that_goes_wakes_both_sides(int (*go)(lk_step_server *)) {
    char run[64];
    lk_step_server *server;
    lk_step_client *client;
    lk_segment *segment;
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
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, names, ""));
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK_STATUS(LK_OK, lk_step_client_regions(client, &segment, &regions));
    struct lk_step_header *header = lk_segment_base(segment);
    pid_t trainer = sleep_on(&header->frame_seq);
    pid_t engine = sleep_on(&header->action_seq); /* another thread of the server's, say */
    CHECK_STATUS(LK_OK, go(server));
    check_woken(trainer);
    check_woken(engine);
    lk_segment_release(segment);
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

/* --- the command rings ------------------------------------------------------------------------ */

static void an_end_of_the_command_rings_that_goes_wakes_the_other(enum end end) {
    struct command_segment made = create_command_segment(4096);
    lk_cmd *cmd = open_end(&made, end, never_gone, NULL);
    pid_t sleepers[4];
    for (int ring = 0; ring < 2; ring++) {
        sleepers[ring] = sleep_on(&ring_header(&made, ring)->write_pos);
        sleepers[ring + 2] = sleep_on(&ring_header(&made, ring)->read_pos);
    }
    CHECK_STATUS(LK_OK, lk_cmd_close(cmd));
    for (int i = 0; i < 4; i++) {
        check_woken(sleepers[i]);
    }
    lk_cmd_free(cmd);
    end_command_segment(&made);
}

/* --- the trajectory lane ---------------------------------------------------------------------- */

static void a_consumer_that_goes_wakes_every_producer(void) {
    enum { RINGS = 3 };
    char run[64];
    lk_traj_reader *reader;
    lk_segment *segment;
    struct lk_traj_config config = {.rings = RINGS, .fields = 1, .ring_size = 4096};
    struct lk_traj_field field = {.name = "score", .dtype = "<f8", .item_size = 8};
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_traj_create(&reader, run, strlen(run), &config, &field));
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
    struct lk_traj_header *header = lk_segment_base(segment);
    uint8_t *control = (uint8_t *)header + header->geometry.control_offset;
    struct lk_traj_ring *rings = (struct lk_traj_ring *)(void *)control;
    pid_t producers[RINGS];
    for (int i = 0; i < RINGS; i++) {
        producers[i] = sleep_on(&rings[i].tail);
    }
    CHECK_STATUS(LK_OK, lk_traj_reader_close(reader));
    for (int i = 0; i < RINGS; i++) {
        check_woken(producers[i]);
    }
    lk_segment_release(segment);
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
}

int main(void) {
    a_frame_writer_that_goes_wakes_its_readers(lk_frame_invalidate);
    a_frame_writer_that_goes_wakes_its_readers(lk_frame_writer_close);
    a_step_server_that_goes_wakes_both_sides(fail);
    a_step_server_that_goes_wakes_both_sides(lk_step_server_close);
    an_end_of_the_command_rings_that_goes_wakes_the_other(SERVER);
    an_end_of_the_command_rings_that_goes_wakes_the_other(CLIENT);
    a_consumer_that_goes_wakes_every_producer();
    return 0;
}
