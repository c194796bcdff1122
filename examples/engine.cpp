/*
 * engine.cpp: the engine of engine.c in C++, with two halves, a named number and a last word.
 *
 *   engine_cpp NAME [ENVIRONMENTS]      until SIGTERM; then StepClient.attach(NAME) in Python
 *
 * With two halves the trainer's policy works on one while the other is stepped here. An exception
 * ends the lane with its text, which the trainer's next call raises.
 */
#include <cmath>
#include <cstring>
#include <iostream>
#include <lanekit.h>
#include <stdexcept>
#include <string>

struct Mass {
    float position = 0, velocity = 0;

    void step(float push) {
        velocity += (push - position) * 0.05f;
        position += velocity * 0.05f;
        if (std::isnan(position)) {
            throw std::runtime_error("a mass was pushed out of this world");
        }
    }
};

static void simulate(const lk_step_exchange &asked, const lk_step_regions &lane) {
    for (uint32_t i = asked.first_env; i < asked.first_env + asked.env_count; i++) {
        Mass &mass = static_cast<Mass *>(lane.obs)[i];
        if (lane.resets[i] != LK_RESET_NO) {
            bool seeded = lane.resets[i] == LK_RESET_SEEDED;
            mass = Mass{seeded ? static_cast<float>(lane.seeds[i] % 1000) / 1000.0f - 0.5f : 0.0f};
        } else if (asked.request == LK_STEP_STEP) {
            mass.step(static_cast<const float *>(lane.actions)[i]);
        }
        static_cast<float *>(lane.rewards)[i] = -mass.position * mass.position;
        lane.dones[i] = std::abs(mass.position) > 2.0f;
        lane.infos[i] = 0.5 * mass.velocity * mass.velocity;
    }
}

int main(int count, char **arguments) {
    const std::string name = count > 1 ? arguments[1] : "engine";
    lk_step_config config{};
    config.halves = config.obs_size = 2;
    config.act_size = config.info_count = 1;
    config.num_envs = count > 2 ? static_cast<uint32_t>(std::stoul(arguments[2])) : 16;
    config.obs_item_size = config.act_item_size = config.reward_size = sizeof(float);
    std::strcpy(config.obs_dtype, "<f4"); // as numpy writes float32
    std::strcpy(config.act_dtype, "<f4");
    const char info_names[64] = "energy";
    lk_process_protect(); // so that SIGTERM and SIGINT remove the lane
    lk_step_server *server;
    int status = lk_step_create(&server, name.data(), name.size(), &config, info_names, nullptr);
    if (status < 0) {
        std::cerr << name << ": " << lk_status_name(status) << "\n";
        return 1;
    }
    lk_segment *segment;
    lk_step_regions lane;
    lk_step_server_regions(server, &segment, &lane);
    try {
        for (lk_step_exchange asked; status >= 0 || status == LK_E_PEER_LOST;) {
            status = lk_step_wait_actions(server, UINT64_MAX, LK_WAIT_HYBRID, &asked);
            if (status == 1) {
                simulate(asked, lane);
                status = lk_step_commit(server);
            } // LK_E_PEER_LOST: the trainer died; the next call waits for its successor
        }
    } catch (const std::exception &error) {
        lk_step_fail(server, error.what(), std::strlen(error.what()));
    }
    lk_segment_release(segment);
    lk_step_server_unlink(server);
    lk_step_server_free(server);
    return 1;
}
