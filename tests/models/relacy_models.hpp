// The models: threads that call the core's functions, and what must hold whatever happens.
// Nothing of the protocols is written down here; only who calls what, and what they may rely on.
// Each lane has a file; this one runs what they define.

#include "relacy_world.hpp"

#include "relacy_frame_models.hpp"
#include "relacy_command_models.hpp"
#include "relacy_segment_models.hpp"
#include "relacy_step_models.hpp"
#include "relacy_trajectory_models.hpp"

// --- running --------------------------------------------------------------------------------------

static int more_preemptions; // than a model asks for, where it does not search all schedules

// LANEKIT_MODEL_HISTORY=1 shows each step of the execution that broke the model.
template <typename suite> static void search() {
    using full = rl::full_search_scheduler<suite::params::thread_count>;
    using bound = rl::context_bound_scheduler<suite::params::thread_count>;
    using scheduler = std::conditional_t<(suite::preemptions < 0), full, bound>;
    rl::test_params params;
    std::ostream nowhere(nullptr);
    rl::ostringstream state;
    params.output_stream = &std::cerr;
    params.progress_stream = &nowhere;
    params.search_type = suite::preemptions < 0 ? rl::sched_full : rl::sched_bound;
    params.context_bound = (unsigned)(suite::preemptions + more_preemptions);
    params.iteration_count = 100000000;
    rl::run_test<suite, scheduler>(params, state, false);
    if (params.test_result != rl::test_result_success && getenv("LANEKIT_MODEL_HISTORY") != nullptr) {
        rl::ostringstream again;
        params.initial_state = state.str();
        params.collect_history = true;
        rl::run_test<suite, scheduler>(params, again, true);
    }
    printf("result|%s|%lld|%d|%d|", rl::test_result_str(params.test_result),
           (long long)params.stop_iteration, params.stop_iteration < params.iteration_count,
           suite::preemptions < 0 ? -1 : suite::preemptions + more_preemptions);
    for (int i = 0; i < LK_SITES_MAX; i++) {
        if (site_used[i]) {
            printf("%d ", i);
        }
    }
    printf("|");
    for (int i = 0; i < LK_SITES_MAX; i++) {
        if (swap_used[i]) {
            printf("%d ", i);
        }
    }
    printf("\n");
}

static const struct {
    const char *name;
    void (*search)();
} all_models[] = {
    {"seqlock", search<seqlock>},         {"frame", search<frame>},
    {"ahead", search<ahead>},             {"slot", search<slot>},
    {"metrics", search<metrics>},         {"wait_block", search<wait_block>},
    {"wait_hybrid", search<wait_hybrid>}, {"wait_spin", search<wait_spin>},
    {"wait_two", search<wait_two>},       {"wait_first", search<wait_first>},
    {"ring_block", search<ring_block>},   {"ring_spin", search<ring_spin>},
    {"guard", search<guard>},             {"guard_turns", search<guard_turns>},
    {"guard_beside", search<guard_beside>},
    {"references", search<references>},   {"ready", search<ready>},
    {"goodbye", search<goodbye>},         {"fault", search<fault>},
    {"fault_reuse", search<fault_reuse>}, {"abandon", search<abandon>},
    {"step_exchange", search<step_exchange>}, {"step_place", search<step_place>},
    {"step_succession", search<step_succession>},
    {"ring_pass", search<ring_pass>},     {"ring_bell", search<ring_bell>}, 
};

// usage: relacy_models                             list the models
//        relacy_models MODEL SITE ORDER SWAP MORE  search one; -1 for SITE and SWAP: as it is
int main(int count, char **arguments) {
    for (const auto &model : all_models) {
        if (count < 6) {
            printf("%s\n", model.name);
        } else if (strcmp(model.name, arguments[1]) == 0) {
            const char *order = arguments[3];
            mutant_site = atoi(arguments[2]);
            mutant_order = strcmp(order, "acquire") == 0   ? rl::mo_acquire
                           : strcmp(order, "release") == 0 ? rl::mo_release
                           : strcmp(order, "acq_rel") == 0 ? rl::mo_acq_rel
                                                           : rl::mo_relaxed;
            mutant_swap = atoi(arguments[4]);
            more_preemptions = atoi(arguments[5]);
            model.search();
        }
    }
    return 0;
}
