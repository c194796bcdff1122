// The fast lane's models: a frame and its metrics under a sequence lock, the head, and who sleeps on
// it. Included by relacy_models.hpp.

// --- [Q1] [Q2] the four steps alone ---------------------------------------------------------------

struct seqlock : rl::test_suite<seqlock, 2> {
    static const int preemptions = -1; // all of them
    lk_atomic<uint64_t> seq, payload[2];

    void thread(unsigned index) {
        if (index == 0) {
            lk_seqlock_begin_write(&seq, 1);
            atomic_store_explicit(&payload[0], 1, memory_order_relaxed);
            atomic_store_explicit(&payload[1], 1, memory_order_relaxed);
            lk_seqlock_end_write(&seq, 2);
            return;
        }
        uint64_t begun = lk_seqlock_begin_read(&seq);
        uint64_t first = atomic_load_explicit(&payload[0], memory_order_relaxed);
        uint64_t second = atomic_load_explicit(&payload[1], memory_order_relaxed);
        if (begun % 2 == 0 && lk_seqlock_unchanged(&seq, begun)) {
            RL_ASSERT(first == begun / 2 && second == begun / 2);
        }
    }
};

// --- [Q1] [Q2] [W1] a frame and its head ----------------------------------------------------------

// Every word of frame n is n (or n as a double), in a ring of one slot: the hardest case. Only the
// second frame has metadata.
template <typename derived> struct publishing : rl::test_suite<derived, 2> {
    static const int preemptions = 3;
    world w;

    void publish_one(uint64_t n) {
        struct lk_frame_metrics metrics = {(double)n, (double)n, (double)n};
        const void *metadata = n > 1 ? &n : NULL;
        model_clock = n;
        w.writer->metrics = metrics;
        RL_ASSERT(publish(w.writer, &n, sizeof n, metadata, sizeof n, NULL) == (int64_t)n);
    }
    // Copy frame n if the slot has it, and return the slot's word.
    uint64_t read_one(uint64_t n) {
        uint64_t pixels = 0;
        uint64_t metadata = 0;
        uint64_t word = 0;
        struct lk_frame_info info;
        struct destination to = {&pixels, &metadata, &info};
        enum attempt got = copy_frame(w.reader, n, &word, &to);
        RL_ASSERT(got != ATTEMPT_CORRUPT);
        if (got == ATTEMPT_GOT) {
            RL_ASSERT(pixels == n && info.timestamp_ns == n);
            RL_ASSERT(n == 1 ? info.metadata_size == -1
                             : info.metadata_size == 8 && metadata == n);
            RL_ASSERT(info.metrics.last_reward == n && info.metrics.rolling_return == n &&
                      info.metrics.step_rate_hz == n);
        }
        return word;
    }
    void before() {
        w.open();
        publish_one(1);
    }
};

struct frame : publishing<frame> {
    void thread(unsigned index) {
        if (index == 0) {
            publish_one(2);
            return;
        }
        uint64_t head = lk_frame_reader_head(w.reader);
        // Who has seen the head may trust it: the slot holds that frame, or a later one.
        RL_ASSERT(read_one(head) >= lk_frame_word_complete(head));
    }
};

// A writer that is ahead is never taken for somebody else, however long a reader takes from one look
// to the next: in the smallest ring, where each frame overwrites the one before.
struct ahead : publishing<ahead> {
    static const int preemptions = 2;

    void thread(unsigned index) {
        if (index == 0) {
            publish_one(2);
            publish_one(3);
            return;
        }
        uint64_t head = lk_frame_reader_head(w.reader);
        uint64_t word = read_one(head);
        uint64_t later = lk_frame_reader_head(w.reader);
        RL_ASSERT(lk_frame_word_possible(&w.reader->geometry, head, word, later));
        RL_ASSERT(!lk_frame_word_possible(&w.reader->geometry, head, 2 * head - 1, later));
        RL_ASSERT(!lk_frame_word_possible(&w.reader->geometry, head, 2 * (later + 2), later));
    }
};

// The slot's word is enough by itself, for a reader that guesses the frame instead of asking head.
struct slot : publishing<slot> {
    void thread(unsigned index) {
        if (index == 0) {
            publish_one(2);
        } else {
            read_one(2);
        }
    }
};

// --- [Q1] [Q2] the header metrics -----------------------------------------------------------------

struct metrics : rl::test_suite<metrics, 2> {
    static const int preemptions = 3;
    world w;

    void before() {
        w.open();
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_frame_metrics all = {1, 1, 1};
            store_metrics(w.writer, &all);
            return;
        }
        struct lk_frame_metrics got = {-1, -1, -1};
        if (lk_frame_metrics(w.reader, &got) == 1) {
            RL_ASSERT(got.last_reward == got.rolling_return);
            RL_ASSERT(got.last_reward == got.step_rate_hz && got.last_reward >= 0);
        }
    }
};

// --- [W1] [W2] announcing and waiting -------------------------------------------------------------

// No deadline ever comes: a wake that is lost is a thread that never ends, which Relacy reports.
template <typename derived, int strategy> struct waiting : rl::test_suite<derived, 2> {
    static const int preemptions = -1;
    world w;
    plain<int> work;

    void before() {
        model_clock_step = 1000000000;
    }
    void thread(unsigned index) {
        if (index == 0) {
            work = 1;
            lk_announce(&w.header.head, &w.header.wake_at, 1);
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        while (lk_wait_beyond(&w.header.head, &w.header.wake_at, 0, UINT64_MAX, &spin,
                              (enum lk_wait_strategy)strategy) == 0) {
            model_yield();
        }
        RL_ASSERT(work == 1);
    }
};
struct wait_block : waiting<wait_block, LK_WAIT_BLOCK> {};
struct wait_hybrid : waiting<wait_hybrid, LK_WAIT_HYBRID> {};

// Spinning ends by its deadline; here after one look, and the caller may come again.
struct wait_spin : rl::test_suite<wait_spin, 2> {
    static const int preemptions = -1;
    world w;
    plain<int> work;

    void before() {
        model_clock_step = 1;
    }
    void thread(unsigned index) {
        if (index == 0) {
            work = 1;
            lk_announce(&w.header.head, &w.header.wake_at, 1);
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        if (lk_wait_beyond(&w.header.head, &w.header.wake_at, 0, 1, &spin, LK_WAIT_SPIN) != 0) {
            RL_ASSERT(work == 1);
        }
    }
};

// Two sleepers for different announcements share the one word wake_at.
struct wait_two : rl::test_suite<wait_two, 3> {
    static const int preemptions = 2;
    world w;
    plain<int> work[3];

    void thread(unsigned index) {
        if (index == 0) {
            for (uint64_t n = 1; n <= 2; n++) {
                work[n] = 1;
                lk_announce(&w.header.head, &w.header.wake_at, n);
            }
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        for (uint64_t seen = 0; seen < index;) {
            seen = lk_wait_beyond(&w.header.head, &w.header.wake_at, seen, UINT64_MAX, &spin,
                                  LK_WAIT_BLOCK);
            for (uint64_t n = 1; n <= seen; n++) {
                RL_ASSERT(work[n] == 1);
            }
        }
    }
};

// --- [W2] the first sleeper -----------------------------------------------------------------------

// Sleeps for long only once the writer looks for sleepers; before that it is back by itself.
struct wait_first : rl::test_suite<wait_first, 2> {
    static const int preemptions = -1;
    world w;
    plain<int> work[3];

    void before() {
        w.open();
    }
    void thread(unsigned index) {
        if (index == 0) {
            for (uint64_t n = 1; n <= 2; n++) {
                work[n] = 1;
                announce(w.writer, n);
            }
            return;
        }
        struct lk_spin spin = LK_SPIN_START;
        uint64_t seen = 0;
        while (seen == 0) {
            if (will_be_woken(w.reader)) {
                seen = lk_wait_beyond(&w.header.head, &w.header.wake_at, 0, UINT64_MAX, &spin,
                                      LK_WAIT_BLOCK);
            } else {
                raise_wake_at(&w.header.wake_at, 1);
                model_yield();
                seen = lk_frame_reader_head(w.reader);
            }
        }
        for (uint64_t n = 1; n <= seen; n++) {
            RL_ASSERT(work[n] == 1);
        }
    }
};
