// The trajectory lane's models: rings of records, and the consumer's one sleep. Included by
// relacy_models.hpp.

// --- [J1] [J2] [J3] [J4] a ring of one cell -------------------------------------------------------

// Two records through room for one: each side has to wait for the other. No deadline ever comes, so
// that a lost wake-up is a thread that never ends. The cell is plain memory.
struct ring_pass : rl::test_suite<ring_pass, 2> {
    static const int preemptions = 3;
    world w;
    struct lk_traj_header header;
    struct lk_traj_ring ring;
    plain<uint64_t> cell;
    uint64_t read = 0; // the consumer's own

    static bool more(const void *self) {
        const ring_pass *suite = (const ring_pass *)self;
        return lk_traj_ring_head(&suite->ring) != suite->read;
    }
    void thread(unsigned index) {
        if (index == 0) {
            for (uint64_t n = 0; n < 2; n++) {
                uint64_t tail;
                while (n - (tail = lk_traj_ring_tail(&ring)) >= 1) {
                    lk_traj_ring_sleep_for_room(&ring, tail, n, UINT64_MAX);
                }
                cell = n + 1;
                lk_traj_ring_publish(&header, &ring, n + 1);
            }
            return;
        }
        while (read < 2) {
            if (lk_traj_ring_head(&ring) == read) {
                lk_traj_ring_sleep_for_record(&header, more, this, UINT64_MAX);
                continue;
            }
            read++;
            RL_ASSERT(cell == read);
            lk_traj_ring_free(&ring, read);
        }
    }
};

// --- [J1] [J3] two producers, one bell ------------------------------------------------------------

struct ring_bell : rl::test_suite<ring_bell, 3> {
    static const int preemptions = 3;
    world w;
    struct lk_traj_header header;
    struct lk_traj_ring rings[2];
    plain<int> cells[2];
    uint64_t read[2] = {0, 0};

    static bool more(const void *self) {
        const ring_bell *suite = (const ring_bell *)self;
        return lk_traj_ring_head(&suite->rings[0]) != suite->read[0] ||
               lk_traj_ring_head(&suite->rings[1]) != suite->read[1];
    }
    void thread(unsigned index) {
        if (index < 2) {
            cells[index] = 1;
            lk_traj_ring_publish(&header, &rings[index], 1);
            return;
        }
        while (read[0] + read[1] < 2) {
            bool found = false;
            for (int i = 0; i < 2; i++) {
                if (read[i] == 0 && lk_traj_ring_head(&rings[i]) == 1) {
                    RL_ASSERT(cells[i] == 1);
                    read[i] = 1;
                    found = true;
                }
            }
            if (!found) {
                lk_traj_ring_sleep_for_record(&header, more, this, UINT64_MAX);
            }
        }
    }
};
