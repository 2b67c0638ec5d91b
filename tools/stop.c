/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "command.h"
#include "ending.h"

/* A batch that takes longer than this is not waited for. */
static const double SECONDS_TO_STOP = 0.7;

static atomic_int asked; /* the signal; 0: none */

static volatile sig_atomic_t waits;

static void set_timer(double seconds) {
    const double whole = floor(seconds);
    const struct itimerval timer = {
        .it_value = {(time_t)whole, (suseconds_t)ceil((seconds - whole) * 1e6)}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void end_of_time(int number) {
    static const char line[] = "tidemark: the time of --timeout is over\n",
                      json[] = "{\"event\": \"error\", \"level\": \"error\", \"message\": "
                               "\"tidemark: the time of --timeout is over\"}\n";
    drop_progress();
    if (logs_json())
        (void)!write(STDERR_FILENO, json, sizeof json - 1);
    else
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
    die_of_signal(number);
}

/* Where the timer ends the program, the signal that began it is why. */
static void request_stop(int number) {
    int first = 0;
    if (!atomic_compare_exchange_strong(&asked, &first, number))
        (first == SIGALRM ? end_of_time : die_of_signal)(number == SIGALRM ? first : number);
    if (!waits)
        set_timer(SECONDS_TO_STOP);
}

void stop_waits_for_files(void) {
    waits = true;
    set_timer(0);
}

void stop_is_kept(void *context) {
    (void)context;
    if (stop_was_asked(NULL))
        set_timer(0);
}

bool read_duration(const char *word, double *seconds) {
    char *unit = NULL;
    const double number = strtod(word, &unit);
    const double scale = !*unit || strcmp(unit, "s") == 0 ? 1
                         : strcmp(unit, "m") == 0         ? 60
                         : strcmp(unit, "h") == 0         ? 3600
                                                          : 0;
    if (unit == word || !scale || !isfinite(number) || number <= 0)
        return false;
    *seconds = number * scale;
    return true;
}

bool limit_time(const struct command *command, const char *word) {
    double seconds;
    if (!read_duration(word, &seconds) || seconds > 1e9) {
        wrong_call(command, "--timeout takes a time such as 10s, 5m or 1h, not '%s'", word);
        return false;
    }
    struct sigaction action = {.sa_handler = end_of_time};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    set_timer(seconds);
    return true;
}

void watch_for_stop(bool patient) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
    waits = patient;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESTART}, before;
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 &&
            (before.sa_handler != SIG_IGN || numbers[i] == SIGALRM))
            sigaction(numbers[i], &action, NULL);
    }
}

bool stop_was_asked(void *context) {
    (void)context;
    return atomic_load(&asked) != 0;
}

int stop_exit_status(void) {
    int number = atomic_load(&asked);
    return EXIT_BY_SIGNAL + (number ? number : SIGTERM); /* another rank got the signal */
}
