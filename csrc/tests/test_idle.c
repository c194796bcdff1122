/*
 * Whoever waits sleeps, through a wait of some slices and in every lane. And
 * two threads in one handle: while one of them waits in it, the other is turned away.
 */
#include "check.h"
#include "command_segment.h"
#include "lk_layout.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define WAIT_NS UINT64_C(250000000)

/* Looks every few milliseconds whether the thread that waits is asleep. */
struct watch {
    pthread_t thread;
    pid_t waiter;
    _Atomic int over;
    int looks;
    int asleep;
};

static void *look_at_waiter(void *argument) {
    struct watch *watch = argument;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)watch->waiter);
    while (!atomic_load(&watch->over)) {
        char state;
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        CHECK(fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        watch->looks++;
        watch->asleep += state == 'S';
        pause_ms(2);
    }
    return NULL;
}

/* Whoever looks again and again is never seen asleep, on however busy a machine. */
#define CHECK_IDLE(expected, call)                                                 \
    do {                                                                           \
        struct watch watch_ = {.waiter = (pid_t)syscall(SYS_gettid)};              \
        uint64_t begun_ = lk_clock_ns();                                           \
        CHECK(pthread_create(&watch_.thread, NULL, look_at_waiter, &watch_) == 0); \
        CHECK_STATUS(expected, call);                                              \
        CHECK(lk_clock_ns() - begun_ >= WAIT_NS);                                  \
        atomic_store(&watch_.over, 1);                                             \
        pthread_join(watch_.thread, NULL);                                         \
        CHECK(watch_.asleep * 2 > watch_.looks);                                   \
    } while (0)

static void readers_and_frames(void) {
    char run[64];
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    struct lk_frame_config config = small_rgb(2);
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK_IDLE(0, lk_frame_wait(reader, WAIT_NS, LK_WAIT_BLOCK));
    CHECK_IDLE(0, lk_frame_wait(reader, WAIT_NS, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_OK, lk_frame_invalidate(writer)); /* it left: a successor may come */
    CHECK_IDLE(0, lk_frame_wait(reader, WAIT_NS, LK_WAIT_BLOCK));
    lk_frame_reader_free(reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
}

static void trainers_and_engines(void) {
    char run[64];
    lk_step_server *server;
    lk_step_client *client;
    struct lk_step_exchange exchange;
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
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK_IDLE(0, lk_step_wait_actions(server, WAIT_NS, LK_WAIT_BLOCK, &exchange));
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &exchange));
    CHECK_IDLE(0, lk_step_receive(client, WAIT_NS, LK_WAIT_BLOCK, &exchange));
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

static void ends_of_command_rings(void) {
    struct command_segment made = create_command_segment(4096);
    uint8_t message[1024] = {0};
    size_t size;
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
    CHECK_IDLE(0, lk_cmd_receive(client, message, sizeof message, &size, WAIT_NS, LK_WAIT_BLOCK));
    CHECK_IDLE(0, lk_cmd_peek(client, &size, WAIT_NS, LK_WAIT_BLOCK));
    while (lk_cmd_send(server, message, sizeof message, 0, LK_WAIT_BLOCK) == 1) {
    }
    CHECK_IDLE(0, lk_cmd_send(server, message, sizeof message, WAIT_NS, LK_WAIT_BLOCK));
    lk_cmd_free(server);
    lk_cmd_free(client);
    end_command_segment(&made);
}

static void producers_and_consumers(void) {
    char run[64];
    double score = 1;
    const struct lk_traj_array array = {&score, 1};
    lk_traj_reader *reader;
    lk_traj_writer *writer;
    struct lk_traj_config config = {.rings = 1, .fields = 1, .ring_size = 1024};
    struct lk_traj_field field = {.name = "score", .dtype = "<f8", .item_size = 8};
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_traj_create(&reader, run, strlen(run), &config, &field));
    CHECK_STATUS(LK_OK, lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, UINT64_MAX, NULL));
    CHECK_IDLE(0, lk_traj_wait(reader, WAIT_NS));
    while (lk_traj_put(writer, &array, NULL, 0, 0) > 0) {
    }
    CHECK_IDLE(0, lk_traj_put(writer, &array, NULL, 0, WAIT_NS));
    lk_traj_writer_free(writer);
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
}

/* --- two threads in one handle ---------------------------------------------------------------- */

static void *wait_long(void *reader) {
    /* Until the other thread closes it, or a minute: then the other was never turned away. */
    CHECK_STATUS(LK_E_CLOSED, lk_frame_wait(reader, A_MINUTE_NS, LK_WAIT_BLOCK));
    return NULL;
}

static int maps_hold(const char *word) {
    char line[512];
    int found = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        found += strstr(line, word) != NULL;
    }
    fclose(file);
    return found;
}

static void a_second_thread_is_turned_away(void) {
    char run[64], name[160];
    pthread_t thread;
    lk_frame_writer *writer;
    lk_frame_reader *reader;
    struct lk_frame_stats stats;
    struct lk_frame_config config = small_rgb(2);
    fresh_run(run);
    CHECK_STATUS(LK_OK, lk_segment_name(LK_KIND_FRAME, run, strlen(run), name, sizeof name));
    CHECK_STATUS(LK_OK, lk_frame_create(&writer, run, strlen(run), &config));
    CHECK_STATUS(LK_OK, lk_frame_attach(&reader, run, strlen(run), 0, NULL));
    CHECK(pthread_create(&thread, NULL, wait_long, reader) == 0);
    while (lk_frame_reader_stats(reader, &stats) != LK_E_CONCURRENT) {
        pause_ms(1);
    }
    /* In a child that other thread does not exist, and still the child can let go of it all. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(maps_hold(name) == 2);
        CHECK_STATUS(LK_E_FORKED, lk_frame_reader_stats(reader, &stats));
        CHECK_STATUS(LK_OK, lk_frame_reader_close(reader));
        CHECK_STATUS(LK_OK, lk_frame_writer_close(writer));
        CHECK(maps_hold(name) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_STATUS(LK_OK, lk_frame_reader_close(reader));
    pthread_join(thread, NULL);
    lk_frame_reader_free(reader);
    CHECK_STATUS(LK_OK, lk_frame_writer_unlink(writer));
    lk_frame_writer_free(writer);
    CHECK(maps_hold(name) == 0);
}

int main(void) {
    readers_and_frames();
    trainers_and_engines();
    ends_of_command_rings();
    producers_and_consumers();
    a_second_thread_is_turned_away();
    return 0;
}
