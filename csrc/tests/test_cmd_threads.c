/*
 * Both ends of a channel in one process, over one mapping, each with a thread that sends and one
 * that receives: what ThreadSanitizer can judge. It sees that the copies are plain and never
 * overlap. A second thread on one side of one end is told so.
 */
#include "command_segment.h"

#include <pthread.h>

#define MESSAGES 20000u

struct job {
    lk_cmd *cmd;
    int strategy;
};

static void *send_all(void *context) {
    const struct job *job = context;
    uint8_t message[MESSAGE_MAX];
    for (uint64_t n = 1; n <= MESSAGES; n++) {
        size_t size = make_message(message, n, 100);
        CHECK_STATUS(1, lk_cmd_send(job->cmd, message, size, A_MINUTE_NS, job->strategy));
    }
    return NULL;
}

static void *receive_all(void *context) {
    const struct job *job = context;
    uint8_t message[MESSAGE_MAX];
    size_t size;
    for (uint64_t n = 1; n <= MESSAGES; n++) {
        CHECK_STATUS(1, lk_cmd_receive(job->cmd, message, sizeof message, &size, A_MINUTE_NS,
                                       job->strategy));
        CHECK(check_message(message, size, 100) == n);
    }
    return NULL;
}

static void four_threads_share_a_channel(int strategy) {
    struct command_segment made = create_command_segment(256);
    struct job server = {open_end(&made, SERVER, never_gone, NULL), strategy};
    struct job client = {open_end(&made, CLIENT, never_gone, NULL), strategy};
    pthread_t threads[4];
    CHECK(pthread_create(&threads[0], NULL, send_all, &server) == 0);
    CHECK(pthread_create(&threads[1], NULL, receive_all, &server) == 0);
    CHECK(pthread_create(&threads[2], NULL, send_all, &client) == 0);
    CHECK(pthread_create(&threads[3], NULL, receive_all, &client) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    lk_cmd_free(server.cmd);
    lk_cmd_free(client.cmd);
    end_command_segment(&made);
}

/* Whoever comes second is told, and that may be this one. */
static void *receive_one(void *context) {
    uint8_t message[MESSAGE_MAX];
    size_t size;
    int status;
    do {
        status =
            lk_cmd_receive(context, message, sizeof message, &size, A_MINUTE_NS, LK_WAIT_HYBRID);
    } while (status == LK_E_CONCURRENT);
    CHECK_STATUS(1, status);
    CHECK(check_message(message, size, 100) == 1);
    return NULL;
}

static void two_threads_on_one_side_are_told(void) {
    struct command_segment made = create_command_segment(256);
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
    pthread_t waiter;
    size_t size;
    CHECK(pthread_create(&waiter, NULL, receive_one, server) == 0);
    while (lk_cmd_peek(server, &size, 0, LK_WAIT_HYBRID) != LK_E_CONCURRENT) {
        pause_ms(1); /* until the other one is inside */
    }
    send_message(server, 7, 100); /* sending is another matter */
    send_message(client, 1, 100);
    CHECK(pthread_join(waiter, NULL) == 0);
    CHECK(receive_message(client, 100) == 7);
    lk_cmd_free(server);
    lk_cmd_free(client);
    end_command_segment(&made);
}

int main(void) {
    four_threads_share_a_channel(LK_WAIT_HYBRID);
    four_threads_share_a_channel(LK_WAIT_BLOCK);
    two_threads_on_one_side_are_told();
    return 0;
}
