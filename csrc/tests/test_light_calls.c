/*
 * Calls that only look enter beside a call that waits: here the one that is waited for comes only
 * after they have answered, so that a light call that waited would wait for ever. Closing waits for
 * calls of both kinds.
 */
#include "check.h"

#include "lk_layout.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WATCHDOG = 60, LOOKERS = 3 };

static const struct lk_step_config config = {
    .mode = LK_STEP_TRAINING,
    .halves = 1,
    .num_envs = 2,
    .obs_size = 3,
    .act_size = 2,
    .obs_item_size = 4,
    .act_item_size = 4,
    .reward_size = 4,
    .obs_dtype = "<f4",
    .act_dtype = "<f4",
};

/* --- the step lane ---------------------------------------------------------------------------- */

static void *step(void *client) {
    CHECK_STATUS(1, lk_step_step(client, UINT64_MAX, LK_WAIT_BLOCK));
    return NULL;
}

static void *serve(void *server) {
    struct lk_step_exchange asked;
    int status;
    do { /* the other thread may be inside, to see whether we are */
        status = lk_step_wait_actions(server, UINT64_MAX, LK_WAIT_BLOCK, &asked);
    } while (status == LK_E_CONCURRENT);
    CHECK_STATUS(1, status);
    return NULL;
}

static void the_state_of_a_client_can_be_asked_while_it_steps(void) {
    char run[64];
    char reason[16];
    fresh_run(run);
    lk_step_server *server;
    lk_step_client *client;
    struct lk_step_state state;
    struct lk_step_config found;
    struct lk_step_exchange asked;
    pthread_t stepper;
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, NULL, NULL));
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK(pthread_create(&stepper, NULL, step, client) == 0);
    do { /* until the thread is inside, waiting for an engine that does not answer */
        CHECK_STATUS(LK_OK, lk_step_client_state(client, &state));
    } while (state.sent == 0);
    pause_ms(20);
    CHECK_STATUS(LK_OK, lk_step_client_state(client, &state));
    CHECK(state.sent == 1 && state.completed == 0 && state.client_pid == (uint32_t)getpid());
    CHECK_STATUS(1, lk_step_under_way(client));
    CHECK_STATUS(LK_OK, lk_step_client_config(client, &found));
    CHECK(found.num_envs == 2);
    CHECK_STATUS(0, lk_step_failure(client, reason, sizeof reason));
    CHECK_STATUS(LK_E_CONCURRENT, lk_step_send(client, LK_STEP_STEP, &asked));
    /* Now the engine answers. */
    CHECK_STATUS(1, lk_step_wait_actions(server, UINT64_MAX, LK_WAIT_BLOCK, &asked));
    CHECK_STATUS(LK_OK, lk_step_commit(server));
    pthread_join(stepper, NULL);
    CHECK_STATUS(0, lk_step_under_way(client));
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

static void the_state_of_a_server_can_be_asked_while_it_waits(void) {
    char run[64];
    fresh_run(run);
    lk_step_server *server;
    lk_step_client *client;
    struct lk_step_state state;
    struct lk_step_exchange asked;
    pthread_t engine;
    CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, NULL, NULL));
    CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
    CHECK(pthread_create(&engine, NULL, serve, server) == 0);
    while (lk_step_commit(server) != LK_E_CONCURRENT) { /* until the thread is inside */
        pause_ms(1);
    }
    CHECK_STATUS(LK_OK, lk_step_server_state(server, &state));
    CHECK(state.sent == 0 && state.completed == 0);
    CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &asked));
    pthread_join(engine, NULL);
    CHECK_STATUS(LK_OK, lk_step_commit(server));
    CHECK_STATUS(LK_OK, lk_step_server_state(server, &state));
    CHECK(state.sent == 1 && state.completed == 1);
    lk_step_client_free(client);
    CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
    lk_step_server_free(server);
}

/* --- the trajectory lane ---------------------------------------------------------------------- */

static const struct lk_traj_field field = {
    .name = "x", .dtype = "<f8", .item_size = 8, .flags = LK_TRAJ_RAGGED};
static const double content[50];
static _Atomic int64_t last_put;

static void *put(void *writer) {
    struct lk_traj_array array = {content, 50};
    int64_t number;
    do {
        number = lk_traj_put(writer, &array, NULL, 0, UINT64_MAX);
    } while (number == LK_E_CONCURRENT);
    atomic_store(&last_put, number);
    return NULL;
}

static void *wait_for_record(void *reader) {
    int status;
    do {
        status = lk_traj_wait(reader, UINT64_MAX);
    } while (status == LK_E_CONCURRENT);
    CHECK_STATUS(1, status);
    return NULL;
}

static void a_producer_and_a_consumer_can_be_asked_while_they_wait(void) {
    char run[64];
    fresh_run(run);
    struct lk_traj_config wanted = {.rings = 1, .fields = 1, .ring_size = 4096};
    struct lk_traj_config found;
    struct lk_traj_array array = {content, 50};
    struct lk_traj_record record;
    struct lk_traj_ring_status ring;
    struct lk_traj_place place;
    lk_traj_reader *reader;
    lk_traj_writer *writer;
    lk_segment *segment;
    uint32_t spoiled;
    pthread_t other;
    CHECK_STATUS(LK_OK, lk_traj_create(&reader, run, strlen(run), &wanted, &field));
    CHECK_STATUS(LK_OK, lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, UINT64_MAX, NULL));
    CHECK(pthread_create(&other, NULL, wait_for_record, reader) == 0);
    while (lk_traj_exhausted(reader) != LK_E_CONCURRENT) { /* until the thread is inside */
        pause_ms(1);
    }
    CHECK_STATUS(LK_OK, lk_traj_reader_config(reader, &found));
    CHECK(found.rings == 1);
    CHECK_STATUS(LK_OK, lk_traj_reader_view(reader, &segment));
    lk_segment_release(segment);
    CHECK_STATUS(1, lk_traj_put(writer, &array, NULL, 0, 0));
    pthread_join(other, NULL);
    CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
    uint64_t before = place.position;
    CHECK(before > 0);
    while (lk_traj_put(writer, &array, NULL, 0, 0) > 0) { /* until there is no room */
    }
    CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
    before = place.position;
    CHECK(pthread_create(&other, NULL, put, writer) == 0);
    while (lk_traj_abandon(writer) != LK_E_CONCURRENT) { /* until the thread is inside */
        pause_ms(1);
    }
    CHECK_STATUS(LK_OK, lk_traj_writer_ring(writer, &ring));
    CHECK(ring.records > 0);
    CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
    CHECK(place.position == before);
    CHECK_STATUS(LK_OK, lk_traj_writer_config(writer, &found, NULL));
    CHECK_STATUS(LK_OK, lk_traj_writer_view(writer, &segment));
    lk_segment_release(segment);
    CHECK(last_put == 0);
    do { /* now there is room */
        CHECK_STATUS(1, lk_traj_take(reader, 1, &record, &array, &spoiled));
        CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
        pause_ms(5);
    } while (last_put == 0);
    pthread_join(other, NULL);
    CHECK(last_put > 0);
    CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
    CHECK(place.position > before);
    lk_traj_writer_free(writer);
    CHECK_STATUS(LK_OK, lk_traj_reader_unlink(reader));
    lk_traj_reader_free(reader);
}

/* --- the end ---------------------------------------------------------------------------------- */

static _Atomic int looks;

static void *look_until_closed(void *handle) {
    lk_step_client *client = handle;
    struct lk_step_state state;
    int status;
    while ((status = lk_step_client_state(client, &state)) == LK_OK) {
        CHECK(state.completed <= state.sent);
        int under_way = lk_step_under_way(client);
        CHECK(under_way == LK_E_CLOSED || under_way == 0 || under_way == 1);
        atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
    }
    CHECK_STATUS(LK_E_CLOSED, status);
    return NULL;
}

static void closing_waits_for_those_who_look(void) {
    char run[64];
    fresh_run(run);
    for (int round = 0; round < 20; round++) {
        lk_step_server *server;
        lk_step_client *client;
        struct lk_step_exchange asked;
        pthread_t lookers[LOOKERS];
        CHECK_STATUS(LK_OK, lk_step_create(&server, run, strlen(run), &config, NULL, NULL));
        CHECK_STATUS(LK_OK, lk_step_attach(&client, run, strlen(run), NULL));
        atomic_store(&looks, 0);
        for (int i = 0; i < LOOKERS; i++) {
            CHECK(pthread_create(&lookers[i], NULL, look_until_closed, client) == 0);
        }
        do {
            CHECK_STATUS(LK_OK, lk_step_send(client, LK_STEP_STEP, &asked));
            CHECK_STATUS(1, lk_step_wait_actions(server, UINT64_MAX, LK_WAIT_HYBRID, &asked));
            CHECK_STATUS(LK_OK, lk_step_commit(server));
            CHECK_STATUS(1, lk_step_receive(client, UINT64_MAX, LK_WAIT_HYBRID, &asked));
        } while (atomic_load(&looks) < 100);
        CHECK_STATUS(LK_OK, lk_step_client_close(client));
        for (int i = 0; i < LOOKERS; i++) {
            pthread_join(lookers[i], NULL);
        }
        lk_step_client_free(client);
        CHECK_STATUS(LK_OK, lk_step_server_unlink(server));
        lk_step_server_free(server);
    }
}

int main(void) {
    alarm(WATCHDOG);
    the_state_of_a_client_can_be_asked_while_it_steps();
    the_state_of_a_server_can_be_asked_while_it_waits();
    a_producer_and_a_consumer_can_be_asked_while_they_wait();
    closing_waits_for_those_who_look();
    return 0;
}
