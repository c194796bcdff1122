// The models of what all lanes share: one handle in several threads, a segment's beginning and end,
// and its mapping under signal handlers. Included by relacy_models.hpp.

// --- [G1] [G2] one handle, several threads --------------------------------------------------------

// A call, one that only looks, and somebody who closes. `open` stands for what a light call looks
// at, which only closing changes; `handle` for what the calls change.
struct guard : rl::test_suite<guard, 3> {
    static const int preemptions = 3;
    struct lk_guard handle_guard;
    plain<int> handle;
    plain<int> open;

    void before() {
        lk_guard_init(&handle_guard);
        open = 1;
    }
    void thread(unsigned index) {
        if (index == 2) {
            RL_ASSERT(lk_guard_close(&handle_guard));
            handle = 0;
            open = 0;
            return;
        }
        int status = index == 0 ? lk_guard_enter(&handle_guard)
                                : lk_guard_enter_lightly(&handle_guard);
        RL_ASSERT(status == LK_OK || status == LK_E_CLOSED); // light calls disturb nobody
        if (status != LK_OK) {
            return;
        }
        RL_ASSERT(open == 1);
        if (index == 0) {
            handle = handle + 1;
            lk_guard_exit(&handle_guard);
        } else {
            lk_guard_exit_lightly(&handle_guard);
        }
    }
};

// Two calls that exclude each other: either sees what the other did, or is refused.
struct guard_turns : rl::test_suite<guard_turns, 2> {
    static const int preemptions = -1;
    struct lk_guard handle_guard;
    plain<int> handle;

    void before() {
        lk_guard_init(&handle_guard);
    }
    void thread(unsigned) {
        int status = lk_guard_enter(&handle_guard);
        RL_ASSERT(status == LK_OK || status == LK_E_CONCURRENT);
        if (status == LK_OK) {
            handle = handle + 1;
            lk_guard_exit(&handle_guard);
        }
    }
};

// A call that waits for another thread, which first looks at the same handle: if looking waited for
// the call, or the call for those who look, neither would go on.
struct guard_beside : rl::test_suite<guard_beside, 2> {
    static const int preemptions = -1;
    struct lk_guard handle_guard;
    lk_atomic<uint32_t> looked;

    void before() {
        lk_guard_init(&handle_guard);
        RL_ASSERT(lk_guard_enter(&handle_guard) == LK_OK);
    }
    void thread(unsigned index) {
        if (index == 1) {
            RL_ASSERT(lk_guard_enter_lightly(&handle_guard) == LK_OK);
            lk_guard_exit_lightly(&handle_guard);
            atomic_store_explicit(&looked, 1, memory_order_relaxed);
            return;
        }
        while (atomic_load_explicit(&looked, memory_order_relaxed) == 0) {
            model_yield();
        }
        lk_guard_exit(&handle_guard);
        RL_ASSERT(lk_guard_enter(&handle_guard) == LK_OK);
    }
};

// --- [S3] references and the pool -----------------------------------------------------------------

// Two holders let go; a third thread wants the pool entry for a mapping of its own.
struct references : rl::test_suite<references, 3> {
    static const int preemptions = 3;
    world w;

    void before() {
        lk_segment *segment = w.open();
        lk_segment_retain(segment);
    }
    void thread(unsigned index) {
        if (index < 2) {
            lk_segment *segment = w.entries;
            struct lk_segment_header *header = lk_segment_header_of(segment);
            RL_ASSERT(atomic_load_explicit(&header->flags, memory_order_relaxed) == 0);
            RL_ASSERT(lk_segment_identity(segment)->inode == MODEL_INODE);
            lk_segment_release(segment);
            return;
        }
        lk_segment *segment = nullptr;
        if (lk_segment_open(&segment, "n", O_RDWR, NULL) == LK_OK) {
            RL_ASSERT(lk_segment_map(segment, model_file_size, 0) == LK_OK);
        }
    }
};

// --- [S1] creating and attaching ------------------------------------------------------------------

struct ready : rl::test_suite<ready, 2> {
    static const int preemptions = 3;
    world w;
    struct lk_frame_geometry private_geometry;

    void before() {
        model_segments = 2; // the two sides are processes with a pool each; here, an entry each
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_segment_request request = {LK_KIND_FRAME, LK_MAGIC_FRAME, "r", 1,
                                                 model_file_size};
            RL_ASSERT(writer_open_segment(w.writer, &request) == LK_OK);
            return;
        }
        lk_segment *segment = nullptr;
        w.reader->run_id_size = 1;
        w.reader->run_id[0] = 'r';
        int status = reader_open_segment(w.reader, &segment, &private_geometry);
        RL_ASSERT(status == LK_OK || status == LK_E_NOT_READY || status == LK_E_TOO_MANY);
    }
};

// --- [S2] the end of a segment --------------------------------------------------------------------

// A reader that learns of the end can get all that was written before it: the last frame, and what
// a lane may keep beside its frames.
struct goodbye : rl::test_suite<goodbye, 2> {
    static const int preemptions = 3;
    world w;
    plain<int> beside;

    void before() {
        w.open();
    }
    void thread(unsigned index) {
        if (index == 0) {
            uint64_t pixels = 1;
            RL_ASSERT(publish(w.writer, &pixels, sizeof pixels, NULL, 0, NULL) == 1);
            beside = 1;
            writer_say_goodbye(w.writer);
        } else if (lk_segment_invalidated(w.reader->segment)) {
            RL_ASSERT(lk_frame_reader_head(w.reader) == 1 && beside == 1);
        }
    }
};

// --- [S4] the fault handler and the pool ----------------------------------------------------------

// A fault just behind a small new mapping is not its fault, although the pool entry belonged to a
// large one before.
struct fault : rl::test_suite<fault, 2> {
    static const int preemptions = -1;
    world w;

    void before() {
        model_file_size = 1000;
        lk_segment_release(w.open());
        the_mapping.mapped = nullptr;
    }
    void thread(unsigned index) {
        if (index == 0) {
            model_map(10);
        } else {
            RL_ASSERT(!lk_segment_absorb_fault((char *)&w.header + 500));
        }
    }
};

// The entry of a mapping that ends is taken at once by another, larger one at another address. Its
// size must not be added to the address that was there before.
struct fault_reuse : rl::test_suite<fault_reuse, 2> {
    static const int preemptions = -1;
    world w;
    char *fault_at;

    void before() {
        model_file_size = 10;
        fault_at = (char *)lk_segment_base(w.open()) + 500;
        the_mapping.mapped = nullptr;
        model_base = fault_at - 100000;
    }
    void thread(unsigned index) {
        if (index == 0) {
            lk_segment_release(w.entries);
            model_map(1000);
        } else {
            RL_ASSERT(!lk_segment_absorb_fault(fault_at));
        }
    }
};

// --- [S4] the termination handler and the owner ---------------------------------------------------

// The handler runs in another thread than the one that creates the segment and lets go of it.
struct abandon : rl::test_suite<abandon, 2> {
    static const int preemptions = 3;
    world w;

    void before() {
        the_mapping.mapped = &w.mapped;
    }
    void thread(unsigned index) {
        if (index == 0) {
            struct lk_segment_request request = {LK_KIND_FRAME, LK_MAGIC_FRAME, "r", 1,
                                                 model_file_size};
            lk_segment *segment = nullptr;
            RL_ASSERT(lk_segment_open(&segment, "n", O_RDWR, NULL) == LK_OK);
            RL_ASSERT(build(segment, &request) == LK_OK);
            lk_segment_release(segment);
            model_map(model_file_size); // the entry's next user
        } else {
            lk_segment_abandon_owned();
        }
    }
};
