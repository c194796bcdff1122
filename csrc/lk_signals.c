/*
 * lk_signals.c: the safety net of lk_process_protect.
 *
 * Everything here runs inside signal handlers and uses only async-signal-safe calls. A handler the
 * program had before is kept: for SIGBUS it is called for faults that are not ours, for SIGTERM,
 * SIGHUP and SIGINT ours is not installed at all. An ignored signal stays ignored, as SIGINT is in
 * a background job of a shell without job control.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "lk_segment.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct sigaction bus_before;
static pthread_once_t protect_once = PTHREAD_ONCE_INIT;

static void on_bus_error(int signal_number, siginfo_t *info, void *context) {
    int saved = errno;
    if (info->si_code == BUS_ADRERR && lk_segment_absorb_fault(info->si_addr)) {
        errno = saved;
        return;
    }
    errno = saved;
    if (info->si_code == SI_TKILL && info->si_pid == getpid()) {
        /* Python's faulthandler, when enabled after us, reports a fault and passes it on by raising
         * the signal anew, without its address. Returning repeats the faulting instruction, and
         * the fault comes again, this time to us. */
        return;
    }
    if ((bus_before.sa_flags & SA_SIGINFO) != 0 && bus_before.sa_sigaction != NULL) {
        bus_before.sa_sigaction(signal_number, info, context);
    } else if (bus_before.sa_handler != SIG_DFL && bus_before.sa_handler != SIG_IGN) {
        bus_before.sa_handler(signal_number);
    } else {
        /* Nobody wanted it: the faulting instruction runs again and meets the default action. */
        signal(SIGBUS, SIG_DFL);
        if (info->si_code <= 0) {
            raise(SIGBUS); /* sent by a process: no instruction will repeat it */
        }
    }
}

static void on_termination(int signal_number) {
    lk_segment_abandon_owned();
    signal(signal_number, SIG_DFL);
    raise(
        signal_number); /* delivered when this handler returns, with the status a parent expects */
}

static void clean_up_on(int signal_number) {
    struct sigaction current;
    if (sigaction(signal_number, NULL, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 ||
        current.sa_handler != SIG_DFL) {
        return;
    }
    struct sigaction action = {.sa_handler = on_termination};
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

static void protect(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &bus_before);
    clean_up_on(SIGTERM);
    clean_up_on(SIGHUP);
    clean_up_on(SIGINT);
}

int lk_process_protect(void) {
    pthread_once(&protect_once, protect);
    return LK_OK;
}
