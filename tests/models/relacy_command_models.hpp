// The command lane's models: a byte ring and its two ends. Included by relacy_models.hpp.

// --- [R1] [R2] [W2] a ring -------------------------------------------------------------------------

// Two entries through a ring that holds one: each end has to wait for the other. Sleeps have no
// deadline, so that a lost wake is a thread that never ends; the ring's bytes are race-checked.
template <typename derived, int strategy> struct passing : rl::test_suite<derived, 2> {
    static const int preemptions = 3;
    static const uint64_t ring_bytes = 8;
    world w;
    struct {
        struct lk_ring_header header;
        plain<uint32_t> words[2];
    } region;
    struct lk_ring_end writer, reader;

    void before() {
        RL_ASSERT(lk_ring_open_writer(&writer, &region, ring_bytes) == LK_OK);
        RL_ASSERT(lk_ring_open_reader(&reader, &region, ring_bytes) == LK_OK);
    }
    void thread(unsigned index) {
        for (uint32_t n = 1; n <= 2; n++) {
            int done = 0;
            while (done == 0) {
                uint32_t got = 0;
                size_t size = 0;
                done = index == 0 ? lk_ring_write(&writer, &n, sizeof n)
                                  : lk_ring_read(&reader, &got, sizeof got, &size);
                RL_ASSERT(done == 0 || done == 1);
                RL_ASSERT(done == 0 || index == 0 || (size == sizeof got && got == n));
                if (done == 0 && strategy == LK_WAIT_SPIN) {
                    model_yield(); // no help from the orders of lk_wait_beyond
                } else if (done == 0 && index == 0) {
                    lk_ring_wait_for_space(&writer, UINT64_MAX, (enum lk_wait_strategy)strategy);
                } else if (done == 0) {
                    lk_ring_wait_for_entry(&reader, UINT64_MAX, (enum lk_wait_strategy)strategy);
                }
            }
        }
    }
};
struct ring_block : passing<ring_block, LK_WAIT_BLOCK> {};
struct ring_spin : passing<ring_spin, LK_WAIT_SPIN> {};
