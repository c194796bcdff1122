/*
 * The command channel: what each call answers, how it waits, how it notices that the peer has gone,
 * and that a successor goes on. Two ends in one process first, then in two.
 */
#include "command_segment.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define RING UINT64_C(256)

static void messages_go_both_ways_and_stay_in_order(void) {
    struct command_segment made = create_command_segment(RING);
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
    CHECK_STATUS(RING - 4, lk_cmd_limit(server));
    for (uint64_t n = 1; n < 500; n++) {
        send_message(server, n, 60);
        send_message(client, n * 3, 100);
        send_message(server, n + 1, 60);
        CHECK(receive_message(client, 60) == n);
        CHECK(receive_message(server, 100) == n * 3);
        CHECK(receive_message(client, 60) == n + 1);
    }
    lk_cmd_free(client);
    lk_cmd_free(server);
    end_command_segment(&made);
}

static void calls_say_what_they_found(void) {
    struct command_segment made = create_command_segment(RING);
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
    uint8_t buffer[RING] = {0};
    size_t size = 99;
    for (int strategy = LK_WAIT_HYBRID; strategy <= LK_WAIT_BLOCK; strategy++) {
        CHECK_STATUS(0, lk_cmd_receive(client, buffer, sizeof buffer, &size, 0, strategy));
        CHECK_STATUS(0, lk_cmd_receive(client, buffer, sizeof buffer, &size, 2000000, strategy));
        CHECK_STATUS(0, lk_cmd_peek(client, &size, 2000000, strategy));
    }
    CHECK_STATUS(LK_E_INVALID, lk_cmd_receive(client, buffer, sizeof buffer, &size, 0, 7));
    CHECK_STATUS(LK_E_INVALID, lk_cmd_send(client, buffer, 1, 0, -1));
    CHECK_STATUS(LK_E_TOO_LARGE, lk_cmd_send(server, buffer, RING - 3, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(1, lk_cmd_send(server, NULL, 0, 0, LK_WAIT_HYBRID)); /* nothing is a message too */
    CHECK_STATUS(1, lk_cmd_send(server, "abc", 3, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(1, lk_cmd_receive(client, NULL, 0, &size, 0, LK_WAIT_HYBRID));
    CHECK(size == 0);
    CHECK_STATUS(LK_E_SIZE, lk_cmd_receive(client, buffer, 2, &size, 0, LK_WAIT_HYBRID));
    CHECK(size == 3);
    CHECK_STATUS(1, lk_cmd_peek(client, &size, 0, LK_WAIT_HYBRID));
    CHECK(size == 3);
    CHECK_STATUS(1, lk_cmd_receive(client, buffer, 3, &size, 0, LK_WAIT_HYBRID));
    CHECK(memcmp(buffer, "abc", 3) == 0);
    CHECK_STATUS(1, lk_cmd_send(server, buffer, RING - 4, 0, LK_WAIT_HYBRID)); /* the largest */
    for (int strategy = LK_WAIT_HYBRID; strategy <= LK_WAIT_BLOCK; strategy++) {
        CHECK_STATUS(0, lk_cmd_send(server, buffer, 0, 2000000, strategy)); /* it is full */
    }
    lk_cmd_close(client);
    CHECK_STATUS(LK_OK, lk_cmd_close(client)); /* twice is fine */
    CHECK_STATUS(LK_E_CLOSED, lk_cmd_receive(client, buffer, 3, &size, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_E_CLOSED, lk_cmd_send(client, buffer, 3, 0, LK_WAIT_HYBRID));
    lk_cmd_free(client);
    lk_cmd_free(server);
    end_command_segment(&made);
}

static void a_ring_that_does_not_fit_into_the_segment_is_refused(void) {
    struct command_segment made = create_command_segment(RING);
    struct lk_cmd_peer peer = {never_gone, NULL};
    lk_cmd *cmd;
    uint64_t a = ring_offset(&made, 0);
    uint64_t b = ring_offset(&made, 1);
    const struct {
        uint64_t out, in, bytes;
    } wrong[] = {
        {a, a, RING},
        {a, a + 64, RING},
        {a, b + 64, RING},
        {a + 8, b, RING},
        {a + 8, b, RING - 64},
        {0, b, RING},
        {a, UINT64_MAX - 63, RING},
        {a, b, RING + 64},
        {a, b, 0},
        {a, b, RING + 8},
        {a, b, UINT64_MAX - 63},
        {a, b, UINT64_C(1) << 40},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(LK_E_BAD_GEOMETRY, lk_cmd_open(&cmd, made.segment, wrong[i].out, wrong[i].in,
                                                    wrong[i].bytes, &peer));
        CHECK(cmd == NULL);
    }
    atomic_store(&ring_header(&made, 1)->write_pos, 12);
    CHECK_STATUS(LK_E_CORRUPT, lk_cmd_open(&cmd, made.segment, a, b, RING, &peer));
    end_command_segment(&made);
}

struct asked {
    int answer;
    int times;
};

static int answer_as_told(void *context) {
    struct asked *asked = context;
    asked->times++;
    return asked->answer;
}

static void a_lost_peer_is_told_after_its_last_message(void) {
    struct command_segment made = create_command_segment(RING);
    struct asked asked = {0, 0};
    lk_cmd *server = open_end(&made, SERVER, answer_as_told, &asked);
    lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
    uint8_t buffer[RING] = {0};
    size_t size;
    send_message(client, 1, 60);
    lk_cmd_free(client);
    asked.answer = 1;
    CHECK(receive_message(server, 60) == 1);
    CHECK(asked.times == 0); /* asking costs something: not while there is something to do */
    CHECK_STATUS(LK_E_PEER_LOST,
                 lk_cmd_receive(server, buffer, sizeof buffer, &size, A_MINUTE_NS, LK_WAIT_HYBRID));
    CHECK_STATUS(1, lk_cmd_send(server, buffer, RING - 4, 0, LK_WAIT_HYBRID));
    CHECK_STATUS(LK_E_PEER_LOST, lk_cmd_send(server, buffer, 1, A_MINUTE_NS, LK_WAIT_BLOCK));
    asked.answer = LK_E_INVALIDATED; /* other bad news is passed on */
    CHECK_STATUS(LK_E_INVALIDATED,
                 lk_cmd_receive(server, buffer, sizeof buffer, &size, A_MINUTE_NS, LK_WAIT_HYBRID));
    asked.answer = 0;
    client = open_end(&made, CLIENT, never_gone, NULL); /* a successor */
    CHECK_STATUS(1, lk_cmd_receive(client, buffer, sizeof buffer, &size, 0, LK_WAIT_HYBRID));
    CHECK(size == RING - 4);
    send_message(client, 2, 60);
    send_message(server, 3, 60);
    CHECK(receive_message(server, 60) == 2);
    CHECK(receive_message(client, 60) == 3);
    lk_cmd_free(client);
    lk_cmd_free(server);
    end_command_segment(&made);
}

static int send_and_go(void *context) {
    static int times;
    if (times++ == 0) {
        send_message(context, 9, 60);
    }
    return 1;
}

static void what_a_peer_sends_just_before_it_goes_is_not_lost(void) {
    struct command_segment made = create_command_segment(RING);
    lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
    lk_cmd *server = open_end(&made, SERVER, send_and_go, client);
    uint8_t buffer[RING];
    size_t size;
    CHECK(receive_message(server, 60) == 9); /* it came between our look and our question */
    CHECK_STATUS(LK_E_PEER_LOST,
                 lk_cmd_receive(server, buffer, sizeof buffer, &size, A_MINUTE_NS, LK_WAIT_HYBRID));
    lk_cmd_free(server);
    lk_cmd_free(client);
    end_command_segment(&made);
}

struct closing {
    lk_cmd *cmd;
    int status;
};

static void *receive_for_ever(void *context) {
    struct closing *closing = context;
    uint8_t buffer[RING];
    size_t size;
    closing->status =
        lk_cmd_receive(closing->cmd, buffer, sizeof buffer, &size, UINT64_MAX, LK_WAIT_BLOCK);
    return NULL;
}

static void closing_ends_a_wait_in_another_thread(void) {
    struct command_segment made = create_command_segment(RING);
    struct closing closing = {open_end(&made, SERVER, never_gone, NULL), 0};
    pthread_t waiter;
    CHECK(pthread_create(&waiter, NULL, receive_for_ever, &closing) == 0);
    struct lk_ring_header *ring = ring_header(&made, 1);
    while (atomic_load(&ring->entry_wake_at) == 0) {
        pause_ms(1); /* until it sleeps */
    }
    lk_cmd_close(closing.cmd);
    CHECK(pthread_join(waiter, NULL) == 0);
    CHECK_STATUS(LK_E_CLOSED, closing.status);
    lk_cmd_free(closing.cmd);
    end_command_segment(&made);
}

/* --- two processes ---------------------------------------------------------------------------- */

static void finish(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void two_processes_exchange_messages(uint64_t rounds) {
    struct command_segment made = create_command_segment(1024);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
        for (uint64_t n = 1; n <= rounds; n++) {
            CHECK(receive_message(client, MESSAGE_MAX) == n);
            send_message(client, n, MESSAGE_MAX / 2);
        }
        lk_cmd_free(client);
        _exit(0);
    }
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    uint64_t answered = 0;
    for (uint64_t n = 1; n <= rounds; n++) {
        send_message(server, n, MESSAGE_MAX);
        if (n % 4 == 0) { /* some on their way at once, and the ring full at times */
            while (answered + 1 < n) {
                CHECK(receive_message(server, MESSAGE_MAX / 2) == ++answered);
            }
        }
    }
    while (answered < rounds) {
        CHECK(receive_message(server, MESSAGE_MAX / 2) == ++answered);
    }
    finish(child);
    lk_cmd_free(server);
    end_command_segment(&made);
}

static void a_channel_from_before_a_fork_is_refused(void) {
    struct command_segment made = create_command_segment(RING);
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        size_t size;
        CHECK_STATUS(LK_E_FORKED, lk_cmd_send(server, "x", 1, 0, LK_WAIT_HYBRID));
        CHECK_STATUS(LK_E_FORKED, lk_cmd_peek(server, &size, 0, LK_WAIT_HYBRID));
        lk_cmd_free(server);
        _exit(0);
    }
    finish(child);
    CHECK_STATUS(1, lk_cmd_send(server, "x", 1, 0, LK_WAIT_HYBRID));
    lk_cmd_free(server);
    end_command_segment(&made);
}

static int process_gone(void *context) {
    siginfo_t info = {0};
    pid_t pid = *(pid_t *)context;
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void a_killed_peer_ends_a_wait_without_end(void) {
    struct command_segment made = create_command_segment(RING);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lk_cmd *client = open_end(&made, CLIENT, never_gone, NULL);
        for (uint64_t n = 1; n <= 3; n++) {
            send_message(client, n, 40);
        }
        kill(getpid(), SIGKILL);
    }
    lk_cmd *server = open_end(&made, SERVER, process_gone, &child);
    uint8_t buffer[RING];
    size_t size;
    for (uint64_t n = 1; n <= 3; n++) {
        CHECK(receive_message(server, 40) == n);
    }
    CHECK_STATUS(LK_E_PEER_LOST,
                 lk_cmd_receive(server, buffer, sizeof buffer, &size, UINT64_MAX, LK_WAIT_HYBRID));
    CHECK(waitpid(child, NULL, 0) == child);
    lk_cmd_free(server);
    end_command_segment(&made);
}

int main(void) {
    messages_go_both_ways_and_stay_in_order();
    calls_say_what_they_found();
    a_ring_that_does_not_fit_into_the_segment_is_refused();
    a_lost_peer_is_told_after_its_last_message();
    what_a_peer_sends_just_before_it_goes_is_not_lost();
    closing_ends_a_wait_in_another_thread();
    two_processes_exchange_messages(20000);
    a_channel_from_before_a_fork_is_refused();
    a_killed_peer_ends_a_wait_without_end();
    return 0;
}
