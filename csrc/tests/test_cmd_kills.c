/*
 * A sender or receiver killed at any point: nothing half-written is ever delivered, nothing comes
 * twice, and a successor goes on.
 *
 * First at each single instruction of one call: a child is stepped through it by ptrace, and what
 * its death there would leave is examined. Then real kills at random moments of a long exchange;
 * the argument says how many (default 40).
 */
#include "command_segment.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define RING UINT64_C(256)
#define MOST 72u

static void reap(pid_t child) {
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* --- at each instruction ---------------------------------------------------------------------- */

/* What one call of the other end does, and what must hold if it dies on the way. */
struct scenario {
    void (*act)(lk_cmd *cmd, const uint8_t *message, size_t size);
    bool (*examine)(const struct command_segment *left); /* whether it had taken effect */
};

/* The number of the next message, 0 when there is none. */
static uint64_t next_message(lk_cmd *cmd) {
    uint8_t message[MESSAGE_MAX];
    size_t size;
    int status = lk_cmd_receive(cmd, message, sizeof message, &size, 0, LK_WAIT_HYBRID);
    CHECK(status == 0 || status == 1);
    return status == 0 ? 0 : check_message(message, size, MOST);
}

static void send_it(lk_cmd *cmd, const uint8_t *message, size_t size) {
    CHECK_STATUS(1, lk_cmd_send(cmd, message, size, A_MINUTE_NS, LK_WAIT_HYBRID));
}

static bool survive_the_sender(const struct command_segment *left) {
    lk_cmd *server = open_end(left, SERVER, never_gone, NULL);
    uint64_t got = next_message(server);
    CHECK(got == 0 || got == 1);
    lk_cmd *successor = open_end(left, CLIENT, never_gone, NULL);
    send_message(successor, 2, MOST);
    CHECK(next_message(server) == 2);
    CHECK(next_message(server) == 0);
    lk_cmd_free(successor);
    lk_cmd_free(server);
    return got == 1;
}

static void receive_it(lk_cmd *cmd, const uint8_t *message, size_t size) {
    (void)message;
    (void)size;
    CHECK(next_message(cmd) == 1);
}

static bool survive_the_receiver(const struct command_segment *left) {
    lk_cmd *successor = open_end(left, CLIENT, never_gone, NULL);
    uint64_t got = next_message(successor);
    CHECK(got == 1 || got == 2); /* the first, unless the dead one had taken it */
    CHECK(got == 2 || next_message(successor) == 2);
    CHECK(next_message(successor) == 0);
    lk_cmd *server = open_end(left, SERVER, never_gone, NULL);
    send_message(server, 3, MOST);
    CHECK(next_message(successor) == 3);
    lk_cmd_free(server);
    lk_cmd_free(successor);
    return got == 2;
}

/* A child that stops, then acts, then ends. */
static pid_t start_stopped(const struct command_segment *made, const struct scenario *scenario) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint8_t message[MESSAGE_MAX];
        size_t size = make_message(message, 1, MOST);
        lk_cmd *client = open_end(made, CLIENT, never_gone, NULL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        raise(SIGSTOP);
        scenario->act(client, message, size);
        _exit(0);
    }
    return child;
}

/*
 * Step a child through its call. After each instruction its memory is what its death there would
 * leave behind: examine a copy. Returns the steps, 0 when this machine does not let us trace.
 * `offset` is where in the ring it happens: some of them make the message go around its end.
 */
static long die_at_each_instruction(const struct scenario *scenario, uint64_t offset) {
    struct command_segment made = create_command_segment(RING);
    struct command_segment left = create_command_segment(RING);
    uint8_t *base = lk_segment_base(made.segment);
    uint8_t *copy = lk_segment_base(left.segment);
    size_t rings_size = (size_t)(2 * lk_ring_region_size(RING));
    for (int ring = 0; ring < 2; ring++) {
        atomic_store(&ring_header(&made, ring)->write_pos, offset);
        atomic_store(&ring_header(&made, ring)->read_pos, offset);
    }
    lk_cmd *server = open_end(&made, SERVER, never_gone, NULL);
    send_message(server, 1, MOST); /* for who receives */
    send_message(server, 2, MOST);
    pid_t child = start_stopped(&made, scenario);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    long steps = 0;
    bool effect = false;
    while (WIFSTOPPED(status)) {
        CHECK(steps == 0 || WSTOPSIG(status) == SIGTRAP);
        memcpy(copy + LK_HEADER_SIZE, base + LK_HEADER_SIZE, rings_size);
        bool now = scenario->examine(&left);
        CHECK(now || !effect); /* what has taken effect stays so */
        CHECK(!now || steps > 0);
        effect = now;
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) {
            reap(child);
            status = 77 << 8;
            break;
        }
        steps++;
        CHECK(waitpid(child, &status, 0) == child);
    }
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        steps = 0;
    } else {
        CHECK(WEXITSTATUS(status) == 0 && steps > 100 && effect);
    }
    lk_cmd_free(server);
    end_command_segment(&left);
    end_command_segment(&made);
    return steps;
}

static void either_end_may_die_at_any_instruction(void) {
    const struct scenario sender = {send_it, survive_the_sender};
    const struct scenario receiver = {receive_it, survive_the_receiver};
    long sent = 0;
    long received = 0;
    /* Under a sanitizer a call takes ten times as many instructions: one offset then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const uint64_t apart = 64;
#else
    const uint64_t apart = 8;
#endif
    for (uint64_t offset = RING - 32; offset <= RING; offset += apart) {
        sent += die_at_each_instruction(&sender, offset);
        received += die_at_each_instruction(&receiver, offset);
    }
    printf("died at %ld points of a send and %ld of a receive%s\n", sent, received,
           sent == 0 ? ": no ptrace here" : "");
}

/* --- at random moments ------------------------------------------------------------------------ */

/* What the two children write down, in memory that outlives them. */
struct notebook {
    _Atomic uint64_t begun;    /* the sender begins with this number */
    _Atomic uint64_t received; /* the receiver has had this number */
    _Atomic uint64_t missing;  /* numbers that never came */
};

static pid_t start_sender(const struct command_segment *made, struct notebook *notebook) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lk_cmd *client = open_end(made, CLIENT, never_gone, NULL);
        for (;;) {
            send_message(client, atomic_fetch_add(&notebook->begun, 1) + 1, MOST);
        }
    }
    return child;
}

static pid_t start_receiver(const struct command_segment *made, struct notebook *notebook) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lk_cmd *server = open_end(made, SERVER, never_gone, NULL);
        for (;;) {
            uint64_t n = receive_message(server, MOST);
            uint64_t before = atomic_load(&notebook->received);
            CHECK(n > before); /* never twice, never out of order */
            atomic_fetch_add(&notebook->missing, n - before - 1);
            atomic_store(&notebook->received, n);
        }
    }
    return child;
}

/* Wait until the receiver has got further: both ends work. */
static void wait_for_progress(struct notebook *notebook, pid_t sender, pid_t receiver) {
    uint64_t goal = atomic_load(&notebook->begun) + 3;
    uint64_t deadline = lk_clock_ns() + A_MINUTE_NS;
    while (atomic_load(&notebook->received) < goal) {
        CHECK(lk_clock_ns() < deadline);
        CHECK(waitpid(sender, NULL, WNOHANG) == 0); /* a failed check in a child ends it */
        CHECK(waitpid(receiver, NULL, WNOHANG) == 0);
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 20000};
        nanosleep(&pause, NULL);
    }
}

static void either_end_may_die_at_any_moment(int kills) {
    struct command_segment made = create_command_segment(RING);
    struct notebook *notebook =
        mmap(NULL, sizeof *notebook, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(notebook != MAP_FAILED);
    uint64_t seed = lk_clock_ns() | 1;
    pid_t sender = start_sender(&made, notebook);
    pid_t receiver = start_receiver(&made, notebook);
    for (int kill_number = 0; kill_number < kills; kill_number++) {
        wait_for_progress(notebook, sender, receiver);
        struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)(next_random(&seed) % 300000)};
        nanosleep(&pause, NULL);
        if (next_random(&seed) % 2 == 0) {
            reap(sender);
            sender = start_sender(&made, notebook);
        } else {
            reap(receiver);
            receiver = start_receiver(&made, notebook);
        }
    }
    wait_for_progress(notebook, sender, receiver);
    reap(sender);
    reap(receiver);
    /* A dead sender's last number may never have been sent, a dead receiver's last one never been
     * written down. Nothing else may be missing. */
    CHECK(atomic_load(&notebook->missing) <= (uint64_t)kills);
    printf("%d kills, %llu messages, %llu in doubt\n", kills,
           (unsigned long long)atomic_load(&notebook->received),
           (unsigned long long)atomic_load(&notebook->missing));
    CHECK(munmap(notebook, sizeof *notebook) == 0);
    end_command_segment(&made);
}

int main(int count, char **arguments) {
    either_end_may_die_at_any_instruction();
    either_end_may_die_at_any_moment(count > 1 ? atoi(arguments[1]) : 40);
    return 0;
}
