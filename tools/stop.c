/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "command.h"
#include "ending.h"

static atomic_int asked; /* the signal; 0: none */

static void request_stop(int number) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&asked, &none, number))
        die_of_signal(number);
}

void watch_for_stop(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = request_stop, .sa_flags = SA_RESTART}, before;
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
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
