/*
 * lk_stress_api.h: every declaration of the stress tool's C half, and nothing else.
 *
 * Free of preprocessor lines, like lanekit_api.h, because cffi reads it too. Status codes, names
 * and times follow the same conventions.
 */

/* What the parties do to each other. */
enum lk_stress_shape {
    LK_STRESS_FRAMES = 0,          /* the lane as programs use it: publish, read, check each byte */
    LK_STRESS_MESSAGE_PASSING = 1, /* whoever sees head n finds slot n complete, or overwritten */
    LK_STRESS_SEQLOCK = 2,         /* slots and metrics by their own word alone, past the head */
    LK_STRESS_STORE_BUFFERING = 3  /* ping-pong over the wait hand-shake: no wake-up is lost */
};

/* Deliberate bugs, to show that the tool finds them. */
enum lk_stress_fault {
    LK_STRESS_SOUND = 0,
    LK_STRESS_TORN = 1,             /* the payload changes after its even word */
    LK_STRESS_EARLY_HEAD = 2,       /* the head is published before the slot is complete */
    LK_STRESS_RELAXED_COMMIT = 3,   /* the even word is visible before the payload is complete */
    LK_STRESS_NO_ODD = 4,           /* the odd word is never stored */
    LK_STRESS_UNCHECKED_READER = 5, /* the reader skips its second look */
    LK_STRESS_LOST_WAKE = 6         /* wake_at is looked at before the head is raised */
};

struct lk_stress_plan {
    int shape;            /* enum lk_stress_shape */
    int fault;            /* enum lk_stress_fault */
    int processes;        /* 0: a thread for each party; 1: a forked process for each */
    int writer_core;      /* -1: not pinned */
    int reader_cores[8];  /* -1: not pinned */
    uint32_t readers;     /* 1 to 8 */
    uint32_t delay_every; /* one of so many frames is slowed down step by step; 0: none */
    uint32_t width;
    uint32_t height;
    uint32_t channels; /* 1 or 3 */
    uint32_t capacity;
    uint32_t metadata_size;
    uint64_t seed;
    uint64_t frames; /* each reader leaves after checking so many; 0: when stopped */
    uint64_t enough; /* a party that found so many errors stops all; 0: never */
    const char *run_id;
    size_t run_id_size;
};

struct lk_stress_counts {
    uint64_t published;
    uint64_t frames;    /* frames checked, each once, however often it was looked at */
    uint64_t torn;      /* accepted by the protocol, but not what one publish wrote */
    uint64_t reordered; /* older than what was seen before, or announced before it was there */
    uint64_t skipped;
    uint64_t retries; /* copies that the protocol refused, as it should */
    uint64_t waits;
    uint64_t lost;    /* slept on although the announcement had been made */
    uint32_t working; /* parties that have not ended yet */
    int failure;      /* LK_OK, or the status that ended a party */
    int system_error; /* errno, when failure is LK_E_SYSTEM */
};

typedef struct lk_stress_run lk_stress_run;

/*
 * Set the parties to work and return at once. With plan->processes the caller must have no other
 * threads. What is in plan is copied, run_id included.
 */
int lk_stress_start(lk_stress_run **out, const struct lk_stress_plan *plan);

/* The counts so far. Returns how many parties still work. */
int lk_stress_poll(lk_stress_run *run, struct lk_stress_counts *out);

/* Ask the parties to end. */
void lk_stress_stop(lk_stress_run *run);

/* Wait for all parties, remove what they may have left in shared memory, free the run. */
int lk_stress_finish(lk_stress_run *run, struct lk_stress_counts *out);

/* --- self-checking frames, for parties that are written in Python ----------------------------- */

/* Fill in frame number seq. Returns its metadata's size, -1 for none. */
int64_t lk_stress_fill(uint64_t seq, void *pixels, size_t pixels_size, void *metadata,
                       size_t metadata_capacity, double *metrics);

/* 1 when everything belongs to frame seq, else 0. metadata_size is -1 for none. */
int lk_stress_check(uint64_t seq, const void *pixels, size_t pixels_size, const void *metadata,
                    int64_t metadata_size, size_t metadata_capacity, double last_reward,
                    double rolling_return, double step_rate_hz);

/* The frame number that three metrics belong to, 0 when they do not belong together. */
uint64_t lk_stress_metrics_seq(double last_reward, double rolling_return, double step_rate_hz);

/* Bind the calling thread to one core. */
int lk_stress_pin(int core);
