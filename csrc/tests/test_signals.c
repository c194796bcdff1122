/* Handlers that a program has set before stay its own: only signals that nobody handles end in a
 * clean-up. Each case in a process of its own, for protection is set up once. */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled;

static void count(int signal_number) {
    (void)signal_number;
    handled++;
}

static void count_with_information(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(info->si_signo == signal_number);
    handled += 10;
}

static void in_a_child(void (*scenario)(void), int signal_number) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        scenario();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (signal_number == 0) {
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    } else {
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
    }
}

static void keep(void) {
    signal(SIGTERM, count);
    signal(SIGHUP, SIG_IGN);
    signal(SIGBUS, count);
    CHECK_STATUS(LK_OK, lk_process_protect());
    CHECK_STATUS(LK_OK, lk_process_protect());
    raise(SIGTERM);
    CHECK(handled == 1);
    raise(SIGHUP);
    kill(getpid(), SIGBUS); /* from a process, not by an access: ours passes it on */
    CHECK(handled == 2);
}

static void keep_with_information(void) {
    struct sigaction action = {.sa_sigaction = count_with_information, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGTERM, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    CHECK_STATUS(LK_OK, lk_process_protect());
    raise(SIGTERM);
    kill(getpid(), SIGBUS);
    CHECK(handled == 20);
}

static void nobody_handles_a_bus_error(void) {
    signal(SIGBUS, SIG_DFL); /* sanitizers do */
    CHECK_STATUS(LK_OK, lk_process_protect());
    kill(getpid(), SIGBUS);
}

static void a_bus_error_was_ignored(void) {
    signal(SIGBUS, SIG_IGN);
    CHECK_STATUS(LK_OK, lk_process_protect());
    kill(getpid(), SIGBUS);
}

static void nobody_handles_termination(void) {
    CHECK_STATUS(LK_OK, lk_process_protect());
    raise(SIGTERM);
}

static void nobody_handles_a_hang_up(void) {
    signal(SIGHUP, SIG_DFL); /* whatever a shell has left */
    CHECK_STATUS(LK_OK, lk_process_protect());
    raise(SIGHUP);
}

int main(void) {
    signal(SIGTERM, SIG_DFL);
    in_a_child(keep, 0);
    in_a_child(keep_with_information, 0);
    in_a_child(nobody_handles_a_bus_error, SIGBUS);
    in_a_child(a_bus_error_was_ignored, SIGBUS);
    in_a_child(nobody_handles_termination, SIGTERM);
    in_a_child(nobody_handles_a_hang_up, SIGHUP);
    return 0;
}
