/*
 * Four producers and the consumer at full speed, in small rings, so that everybody sleeps and is
 * woken all the time: a lost wake-up would show as a test that never ends. And the steps of
 * lk_traj_ring.h in one mapping with plain memory behind them, which is what ThreadSanitizer can
 * judge.
 */
#include "lk_traj_ring.h"
#include "traj_check.h"

#include <pthread.h>

#define PRODUCERS 4
#define RECORDS 4000

static char run[64];

static void *produce(void *argument) {
    uint32_t who = *(uint32_t *)argument;
    uint32_t random = who;
    lk_traj_writer *writer = open_producer(run);
    for (uint32_t n = 1; n <= RECORDS; n++) {
        CHECK_STATUS(n, put_numbered(writer, who, n, next_random(&random) % 200, UINT64_MAX));
    }
    lk_traj_writer_free(writer);
    return NULL;
}

static void everything_arrives_once_and_in_order(void) {
    pthread_t threads[PRODUCERS];
    uint32_t names[PRODUCERS];
    uint32_t seen[PRODUCERS] = {0};
    lk_traj_reader *reader = open_reader(fresh_run(run), PRODUCERS, 4096);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        names[i] = i;
        CHECK(pthread_create(&threads[i], NULL, produce, &names[i]) == 0);
    }
    struct lk_traj_record records[8];
    struct lk_traj_array arrays[8 * FIELDS];
    uint32_t spoiled;
    for (uint32_t total = 0; total < PRODUCERS * RECORDS;) {
        CHECK(lk_traj_wait(reader, UINT64_MAX) == 1);
        int taken = lk_traj_take(reader, 8, records, arrays, &spoiled);
        CHECK(taken > 0);
        total += (uint32_t)taken;
        for (int i = taken - 1; i >= 0; i--) { /* the youngest first */
            uint32_t n;
            uint32_t who = check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &n);
            CHECK(n == records[i].number && n > seen[who]);
        }
        for (int i = 0; i < taken; i++) {
            uint32_t n;
            uint32_t who = check_numbered(&records[i], &arrays[(size_t)i * FIELDS], &n);
            CHECK(n == seen[who] + 1);
            seen[who] = n;
            CHECK_STATUS(LK_OK, lk_traj_release(reader, records[i].ring, records[i].ticket));
        }
    }
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(seen[i] == RECORDS);
    }
    end_lane(reader);
}

/* --- the steps alone, with plain memory behind them ---------------------------------------------
 */

#define STEPS 20000
#define ROOM 4 /* cells in the ring */

static struct lk_traj_header header;
static struct lk_traj_ring ring;
static uint64_t cells[ROOM];

static void *put_cells(void *unused) {
    (void)unused;
    for (uint64_t n = 0; n < STEPS; n++) {
        uint64_t tail;
        while (n - (tail = lk_traj_ring_tail(&ring)) >= ROOM) {
            lk_traj_ring_sleep_for_room(&ring, tail, n - ROOM + 1, lk_clock_ns() + 1000000000);
        }
        cells[n % ROOM] = n * 3;
        lk_traj_ring_publish(&header, &ring, n + 1);
    }
    return NULL;
}

static bool more(const void *read) {
    return lk_traj_ring_head(&ring) != *(const uint64_t *)read;
}

static void *take_cells(void *unused) {
    (void)unused;
    uint64_t read = 0;
    while (read < STEPS) {
        uint64_t head = lk_traj_ring_head(&ring);
        if (head == read) {
            lk_traj_ring_sleep_for_record(&header, more, &read, lk_clock_ns() + 1000000000);
            continue;
        }
        for (; read < head; read++) {
            CHECK(cells[read % ROOM] == read * 3);
        }
        lk_traj_ring_free(&ring, read);
    }
    return NULL;
}

static void together(void *(*first)(void *), void *one, void *(*second)(void *), void *two) {
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, first, one) == 0);
    CHECK(pthread_create(&threads[1], NULL, second, two) == 0);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

int main(void) {
    everything_arrives_once_and_in_order();
    together(put_cells, NULL, take_cells, NULL);
    return 0;
}
