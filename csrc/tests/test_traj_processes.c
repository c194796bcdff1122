/*
 * The trajectory lane between processes that are killed: producers in the middle of their work,
 * whose rings others take over; consumers that a successor follows. Whatever the moment, each
 * finished record arrives once and in order, and nobody has to help.
 */
#include "traj_check.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define RINGS 3
#define LIVES 200 /* producers that are killed */

static char run[64];

/* What everybody knows without the lane: numbers that a producer has surely put, and those that a
 * consumer has surely released. */
static struct {
    _Atomic uint32_t finished[LIVES]; /* the last number whose put returned */
    _Atomic uint32_t released[LIVES]; /* the last number whose release returned */
    _Atomic uint32_t consumed;
} *book;

static void *shared(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void produce_for_ever(uint32_t who) {
    uint32_t random = who + 1;
    lk_traj_writer *writer;
    while (lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, UINT64_MAX, NULL) != LK_OK) {
        pause_ms(1);
    }
    for (uint32_t n = 1;; n++) {
        CHECK_STATUS(n, put_numbered(writer, who, n, next_random(&random) % 100, UINT64_MAX));
        atomic_store(&book->finished[who], n);
    }
}

static pid_t start(void (*work)(uint32_t), uint32_t who) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work(who);
        _exit(0);
    }
    return child;
}

static void end(pid_t child) {
    int status;
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void put_three_and_wait_to_be_killed(uint32_t ring) {
    lk_traj_writer *writer;
    CHECK_STATUS(LK_OK, lk_traj_attach_kept(&writer, run, strlen(run), ring, UINT64_MAX, NULL));
    for (uint32_t n = 1; n <= 3; n++) {
        CHECK_STATUS(n, put_numbered(writer, 0, n + book->finished[0], 10, UINT64_MAX));
    }
    atomic_fetch_add(&book->finished[0], 3);
    for (;;) {
        pause_ms(1);
    }
}

static void a_kept_ring_waits_for_its_successor(void) {
    lk_traj_reader *reader = open_reader(fresh_run(run), 2, 8192);
    lk_traj_writer *writer;
    struct lk_traj_place place;
    pid_t child = start(put_three_and_wait_to_be_killed, LK_TRAJ_ANY_RING);
    while (atomic_load(&book->finished[0]) < 3) {
        pause_ms(1);
    }
    /* Taken while its producer lives; nobody else's when it is dead. */
    CHECK_STATUS(LK_E_TAKEN, lk_traj_attach_kept(&writer, run, strlen(run), 0, 0, NULL));
    end(child);
    lk_traj_writer *other = open_producer(run);
    CHECK_STATUS(LK_E_TAKEN, lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, 0, NULL));
    /* A ring that is not kept has no successor, nor has one that is not there. */
    CHECK_STATUS(LK_E_TAKEN, lk_traj_attach_kept(&writer, run, strlen(run), 1, 0, NULL));
    CHECK_STATUS(LK_E_INVALID, lk_traj_attach_kept(&writer, run, strlen(run), 2, 0, NULL));
    end(start(put_three_and_wait_to_be_killed, 0)); /* perhaps before it put anything */
    CHECK_STATUS(LK_OK, lk_traj_attach_kept(&writer, run, strlen(run), 0, 0, NULL));
    CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
    CHECK(place.ring == 0 && place.session >= 2 && place.position > 0);
    uint64_t before = place.position;
    CHECK_STATUS(1, put_numbered(writer, 1, 1, 10, 0));
    CHECK_STATUS(LK_OK, lk_traj_writer_place(writer, &place));
    CHECK(place.position > before);
    /* What the dead have put comes first. */
    struct lk_traj_record record;
    struct lk_traj_array arrays[FIELDS];
    uint32_t spoiled;
    uint32_t seen = 0;
    for (;;) {
        uint32_t n;
        CHECK_STATUS(1, lk_traj_take(reader, 1, &record, arrays, &spoiled));
        if (check_numbered(&record, arrays, &n) == 1) {
            break;
        }
        CHECK(n == ++seen);
        CHECK_STATUS(LK_OK, lk_traj_release(reader, record.ring, record.ticket));
    }
    CHECK(seen >= 3 && seen <= 6);
    CHECK_STATUS(0, lk_traj_take(reader, 1, &record, arrays, &spoiled));
    /* One that leaves gives its ring back to all. */
    lk_traj_writer_free(writer);
    writer = open_producer(run);
    lk_traj_writer_free(writer);
    lk_traj_writer_free(other);
    end_lane(reader);
    memset(book, 0, sizeof *book);
}

/* Take what is there, check that it is next, release it. */
static uint32_t drain(lk_traj_reader *reader, uint32_t seen[LIVES]) {
    struct lk_traj_record records[4];
    struct lk_traj_array arrays[4 * FIELDS];
    uint32_t spoiled;
    int taken = lk_traj_take(reader, 4, records, arrays, &spoiled);
    CHECK(taken >= 0);
    for (int i = 0; i < taken; i++) {
        uint32_t n;
        uint32_t who = check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &n);
        CHECK(who < LIVES && n == seen[who] + 1);
        seen[who] = n;
        CHECK_STATUS(LK_OK, lk_traj_release(reader, records[i].ring, records[i].ticket));
        atomic_store(&book->released[who], n);
        atomic_fetch_add(&book->consumed, 1);
    }
    return (uint32_t)taken;
}

static void check_complete(const uint32_t seen[LIVES]) {
    for (uint32_t who = 0; who < LIVES; who++) {
        /* The put that was cut short may have been finished or not; never more than one. */
        uint32_t finished = atomic_load(&book->finished[who]);
        CHECK(seen[who] == finished || seen[who] == finished + 1);
    }
}

static void killed_producers_lose_nothing_and_block_nobody(void) {
    static uint32_t seen[LIVES];
    uint32_t random = 5;
    pid_t children[RINGS];
    lk_traj_reader *reader = open_reader(fresh_run(run), RINGS, 4096);
    memset(book, 0, sizeof *book);
    uint32_t born = 0;
    for (; born < RINGS; born++) {
        children[born] = start(produce_for_ever, born);
    }
    uint64_t total = 0;
    while (born < LIVES) {
        /* Somebody dies after some more records, whoever it is and whatever it does then. */
        uint64_t until = total + next_random(&random) % 60;
        while (total < until) {
            CHECK(lk_traj_wait(reader, UINT64_MAX) == 1);
            total += drain(reader, seen);
        }
        uint32_t which = next_random(&random) % RINGS;
        end(children[which]);
        children[which] = start(produce_for_ever, born++);
    }
    for (int i = 0; i < RINGS; i++) {
        end(children[i]);
    }
    while (drain(reader, seen) > 0) {
    }
    check_complete(seen);
    end_lane(reader);
}

static void consume_for_ever(uint32_t unused) {
    (void)unused;
    static uint32_t seen[LIVES];
    lk_traj_reader *reader = open_reader(run, RINGS, 4096);
    for (uint32_t who = 0; who < LIVES; who++) {
        seen[who] = UINT32_MAX; /* not known yet */
    }
    struct lk_traj_record records[4];
    struct lk_traj_array arrays[4 * FIELDS];
    uint32_t spoiled;
    for (;;) {
        CHECK(lk_traj_wait(reader, UINT64_MAX) == 1);
        int taken = lk_traj_take(reader, 4, records, arrays, &spoiled);
        for (int i = 0; i < taken; i++) {
            uint32_t n;
            uint32_t who = check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &n);
            uint32_t released = atomic_load(&book->released[who]);
            /* The first that a successor sees of a producer is what its predecessor had not
             * released; the release that the death cut short counts or does not. */
            CHECK(seen[who] == UINT32_MAX ? n == released + 1 || n == released + 2
                                          : n == seen[who] + 1);
            seen[who] = n;
        }
        for (int i = 0; i < taken; i++) {
            uint32_t n;
            uint32_t who = check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &n);
            CHECK_STATUS(LK_OK, lk_traj_release(reader, records[i].ring, records[i].ticket));
            atomic_store(&book->released[who], n);
            atomic_fetch_add(&book->consumed, 1);
        }
    }
}

static void killed_consumers_are_followed_in_place(void) {
    pid_t producers[RINGS];
    fresh_run(run);
    memset(book, 0, sizeof *book);
    pid_t consumer = start(consume_for_ever, 0);
    for (uint32_t i = 0; i < RINGS; i++) {
        producers[i] = start(produce_for_ever, i);
    }
    for (int turn = 0; turn < 40; turn++) {
        uint32_t until = atomic_load(&book->consumed) + 50;
        while ((int32_t)(atomic_load(&book->consumed) - until) < 0) {
            CHECK(waitpid(consumer, NULL, WNOHANG) == 0);
            pause_ms(1);
        }
        end(consumer);
        consumer = start(consume_for_ever, 0);
    }
    uint32_t until = atomic_load(&book->consumed) + 50;
    while ((int32_t)(atomic_load(&book->consumed) - until) < 0) {
        CHECK(waitpid(consumer, NULL, WNOHANG) == 0);
        pause_ms(1);
    }
    for (uint32_t i = 0; i < RINGS; i++) {
        CHECK(waitpid(producers[i], NULL, WNOHANG) == 0); /* they never noticed */
        end(producers[i]);
    }
    end(consumer);
    /* What is left comes to the last one. */
    static uint32_t seen[LIVES];
    for (uint32_t who = 0; who < RINGS; who++) {
        seen[who] = atomic_load(&book->released[who]);
    }
    lk_traj_reader *reader = open_reader(run, RINGS, 4096);
    struct lk_traj_record record;
    struct lk_traj_array arrays[FIELDS];
    uint32_t spoiled;
    bool first[RINGS] = {true, true, true};
    while (lk_traj_take(reader, 1, &record, arrays, &spoiled) == 1) {
        uint32_t n;
        uint32_t who = check_numbered(&record, arrays, &n);
        CHECK(n == seen[who] + 1 || (first[who] && n == seen[who] + 2));
        seen[who] = n;
        first[who] = false;
    }
    for (uint32_t who = 0; who < RINGS; who++) {
        uint32_t finished = atomic_load(&book->finished[who]);
        /* The last release of all may count without having been booked. */
        CHECK(seen[who] == finished || seen[who] == finished + 1 ||
              (first[who] && seen[who] + 1 == finished));
    }
    end_lane(reader);
}

static void a_lane_without_consumer_says_so_at_last(void) {
    fresh_run(run);
    memset(book, 0, sizeof *book);
    pid_t consumer = start(consume_for_ever, 0);
    lk_traj_writer *writer;
    while (lk_traj_attach(&writer, run, strlen(run), NULL, 0, 0, 1000000, NULL) != LK_OK) {
        pause_ms(1);
    }
    end(consumer);
    int64_t status;
    uint32_t n = 1;
    while ((status = put_numbered(writer, 0, n, 90, UINT64_MAX)) > 0) {
        n++;
    }
    CHECK_STATUS(LK_E_PEER_LOST, status);
    lk_traj_reader *reader = open_reader(run, RINGS, 4096); /* and yet one comes */
    static uint32_t seen[LIVES];
    while (drain(reader, seen) > 0) {
    }
    CHECK(seen[0] == n - 1);
    CHECK(put_numbered(writer, 0, n, 90, UINT64_MAX) > 0);
    lk_traj_writer_free(writer);
    end_lane(reader);
}

static void a_forked_child_is_refused_and_harms_nobody(void) {
    lk_traj_reader *reader = open_reader(fresh_run(run), 1, 4096);
    lk_traj_writer *writer = open_producer(run);
    struct lk_traj_record record;
    struct lk_traj_array arrays[FIELDS];
    uint32_t spoiled;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_STATUS(LK_E_FORKED, put_numbered(writer, 1, 1, 1, 0));
        CHECK_STATUS(LK_E_FORKED, lk_traj_take(reader, 1, &record, arrays, &spoiled));
        CHECK_STATUS(LK_E_FORKED, lk_traj_reader_unlink(reader));
        lk_traj_writer_free(writer);
        lk_traj_reader_free(reader);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_STATUS(1, put_numbered(writer, 1, 1, 1, 0));
    CHECK_STATUS(1, lk_traj_take(reader, 1, &record, arrays, &spoiled));
    lk_traj_writer_free(writer);
    end_lane(reader);
}

int main(void) {
    book = shared(sizeof *book);
    a_kept_ring_waits_for_its_successor();
    killed_producers_lose_nothing_and_block_nobody();
    killed_consumers_are_followed_in_place();
    a_lane_without_consumer_says_so_at_last();
    a_forked_child_is_refused_and_harms_nobody();
    return 0;
}
