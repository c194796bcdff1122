/*
 * lk_stress.c: a stress run: its parties are started, watched, stopped, and their counts added up.
 *
 * Labels
 *   [X2] ended: release when a party ends / acquire in lk_stress_poll, so that final counts are
 *        complete
 *
 * Who writes: each party its own tally in the shared page (lk_stress_party.h). Who reads: whoever
 * polls the run.
 * If a party dies, its segment stays behind until lk_stress_finish reclaims it.
 */
#include "lk_stress_party.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where a party runs: a thread or a process. */
struct seat {
    struct lk_stress_run *run;
    uint32_t index; /* 0: the writer */
    pthread_t thread;
    pid_t pid;
};

struct lk_stress_run {
    struct lk_stress_plan plan;
    char run_id[LK_STRESS_RUN_ID_MAX];
    struct lk_stress_board *board;
    uint32_t started;
    struct seat seats[1 + LK_STRESS_READERS_MAX];
};

/* --- acting ----------------------------------------------------------------------------------- */

int lk_stress_pin(int core) {
    if (core < 0) {
        return LK_OK;
    }
    if (core >= CPU_SETSIZE) {
        return LK_E_INVALID;
    }
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((unsigned)core, &cores);
    return sched_setaffinity(0, sizeof cores, &cores) == 0 ? LK_OK : LK_E_SYSTEM;
}

static void act(struct lk_stress_party *me, uint32_t index) {
    if (me->plan->shape == LK_STRESS_STORE_BUFFERING) {
        if (index <= 1) {
            lk_stress_volley(me, index == 0);
        } else {
            lk_stress_wait_along(me);
        }
    } else if (index == 0) {
        lk_stress_write_freely(me);
    } else if (me->plan->shape == LK_STRESS_MESSAGE_PASSING) {
        lk_stress_read_message_passing(me);
    } else if (me->plan->shape == LK_STRESS_SEQLOCK) {
        lk_stress_read_seqlock(me);
    } else {
        lk_stress_read_frames(me);
    }
}

static void play(const struct seat *seat) {
    const struct lk_stress_plan *plan = &seat->run->plan;
    struct lk_stress_board *board = seat->run->board;
    size_t pixels_size = (size_t)plan->width * plan->height * plan->channels;
    struct lk_stress_party me = {
        .plan = plan,
        .board = board,
        .tally = &board->tallies[seat->index],
        .pixels_size = pixels_size,
        .pixels = calloc(1, pixels_size),
        .metadata = calloc(1, (size_t)plan->metadata_size + 1),
        .spin = LK_SPIN_START,
    };
    lk_stress_steps.random =
        lk_stress_scramble(plan->seed + seat->index) | 1; /* xorshift: never 0 */
    lk_stress_steps.longest = 0;
    lk_stress_steps.fault = plan->fault;
    int status =
        lk_stress_pin(seat->index == 0 ? plan->writer_core : plan->reader_cores[seat->index - 1]);
    if (status != LK_OK || me.pixels == NULL || me.metadata == NULL) {
        lk_stress_fail(&me, status != LK_OK ? status : LK_E_SYSTEM);
    } else {
        act(&me, seat->index);
    }
    free(me.pixels);
    free(me.metadata);
    if (seat->index > 0) {
        atomic_fetch_add_explicit(&board->readers_done, 1, memory_order_relaxed);
    }
    /* [X2] release: pairs with the acquire in lk_stress_poll. */
    atomic_store_explicit(&me.tally->ended, 1, memory_order_release);
}

static void *play_as_thread(void *seat) {
    play(seat);
    return NULL;
}

/* --- the run ---------------------------------------------------------------------------------- */

static int start_process(struct seat *seat) {
    pid_t parent = getpid();
    seat->pid = fork();
    if (seat->pid < 0) {
        return LK_E_SYSTEM;
    }
    if (seat->pid == 0) {
        /* Without its parent nobody would stop it; SIGTERM removes its segment first. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) {
            _exit(1);
        }
        play(seat);
        _exit(0);
    }
    return LK_OK;
}

static int start_party(struct lk_stress_run *run, uint32_t index) {
    struct seat *seat = &run->seats[index];
    *seat = (struct seat){.run = run, .index = index};
    if (run->plan.processes) {
        return start_process(seat);
    }
    errno = pthread_create(&seat->thread, NULL, play_as_thread, seat);
    return errno == 0 ? LK_OK : LK_E_SYSTEM;
}

static bool sensible(const struct lk_stress_plan *plan) {
    return plan->shape >= LK_STRESS_FRAMES && plan->shape <= LK_STRESS_STORE_BUFFERING &&
           plan->fault >= LK_STRESS_SOUND && plan->fault <= LK_STRESS_LOST_WAKE &&
           plan->readers >= 1 && plan->readers <= LK_STRESS_READERS_MAX && plan->run_id_size > 0 &&
           plan->run_id_size < LK_STRESS_RUN_ID_MAX && (plan->channels == 1 || plan->channels == 3);
}

int lk_stress_start(lk_stress_run **out, const struct lk_stress_plan *plan) {
    *out = NULL;
    if (!sensible(plan)) {
        return LK_E_INVALID;
    }
    lk_stress_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return LK_E_SYSTEM;
    }
    run->board =
        mmap(NULL, sizeof *run->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run->board == MAP_FAILED) {
        free(run);
        return LK_E_SYSTEM;
    }
    run->plan = *plan;
    memcpy(run->run_id, plan->run_id, plan->run_id_size);
    run->plan.run_id = run->run_id;
    lk_process_protect();
    int status = LK_OK;
    for (uint32_t i = 0; i <= plan->readers && status == LK_OK; i++) {
        status = start_party(run, i);
        run->started += status == LK_OK;
    }
    if (status != LK_OK) {
        struct lk_stress_counts ignored;
        int reason = errno;
        lk_stress_stop(run);
        lk_stress_finish(run, &ignored);
        errno = reason;
        return status;
    }
    *out = run;
    return LK_OK;
}

/* A process that died without a word is a failure of its party. */
static void reap(struct lk_stress_run *run, int options) {
    for (uint32_t i = 0; run->plan.processes && i < run->started; i++) {
        struct seat *seat = &run->seats[i];
        int status = 0;
        if (seat->pid > 0 && waitpid(seat->pid, &status, options) == seat->pid) {
            seat->pid = 0;
            if (status != 0) {
                struct lk_stress_tally *tally = &run->board->tallies[i];
                atomic_store_explicit(&tally->system_error, ECHILD, memory_order_relaxed);
                atomic_store_explicit(&tally->failure, LK_E_SYSTEM, memory_order_relaxed);
                atomic_store_explicit(&tally->ended, 1, memory_order_relaxed);
                lk_stress_stop_all(run->board);
            }
        }
    }
}

int lk_stress_poll(lk_stress_run *run, struct lk_stress_counts *out) {
    reap(run, WNOHANG);
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < run->started; i++) {
        struct lk_stress_tally *tally = &run->board->tallies[i];
        /* [X2] acquire: pairs with the release in play. */
        out->working += atomic_load_explicit(&tally->ended, memory_order_acquire) == 0;
        out->published += atomic_load_explicit(&tally->published, memory_order_relaxed);
        out->frames += atomic_load_explicit(&tally->frames, memory_order_relaxed);
        out->torn += atomic_load_explicit(&tally->torn, memory_order_relaxed);
        out->reordered += atomic_load_explicit(&tally->reordered, memory_order_relaxed);
        out->skipped += atomic_load_explicit(&tally->skipped, memory_order_relaxed);
        out->retries += atomic_load_explicit(&tally->retries, memory_order_relaxed);
        out->waits += atomic_load_explicit(&tally->waits, memory_order_relaxed);
        out->lost += atomic_load_explicit(&tally->lost, memory_order_relaxed);
        int failure = atomic_load_explicit(&tally->failure, memory_order_relaxed);
        if (failure != LK_OK && out->failure == LK_OK) {
            out->failure = failure;
            out->system_error = atomic_load_explicit(&tally->system_error, memory_order_relaxed);
        }
    }
    return (int)out->working;
}

void lk_stress_stop(lk_stress_run *run) {
    lk_stress_stop_all(run->board);
}

int lk_stress_finish(lk_stress_run *run, struct lk_stress_counts *out) {
    for (uint32_t i = 0; !run->plan.processes && i < run->started; i++) {
        pthread_join(run->seats[i].thread, NULL);
    }
    reap(run, 0);
    lk_stress_poll(run, out);
    for (int back = 0; back <= 1; back++) {
        char run_id[LK_STRESS_LANE_ID_SIZE];
        char name[LK_NAME_SIZE];
        size_t size = lk_stress_lane_run_id(&run->plan, back, run_id);
        if (lk_segment_name(LK_KIND_FRAME, run_id, size, name, sizeof name) == LK_OK) {
            lk_segment_reclaim(name, 0); /* there is one only if its process was killed */
        }
    }
    munmap(run->board, sizeof *run->board);
    free(run);
    return LK_OK;
}
