/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starts processes to be tortured, gives them rounds, and has their histories judged. */
#ifndef TEK_TORTURE_SUPERVISOR_H
#define TEK_TORTURE_SUPERVISOR_H

#include "judge.h"

#include <sys/types.h>

struct supervisor {
	char *const *prefix; /* a command before the program, such as `tek run`; NULL: none */
	unsigned int prefix_count;
	const char *library; /* to be preloaded; NULL: none */
	bool may_be_taken_back;
	long settle_ms; /* so long a thread at rest may have what it should not have */
	long hang_ms;   /* without an event for so long, the process hangs */

	pid_t pid; /* of the process, or of the command before it; 0: none */
	int fd;
	struct shared *shared;
	unsigned int late; /* rounds whose threads had their own scheduling only a little later */
	unsigned long long events;
};

bool supervisor_init(struct supervisor *supervisor);

/*
 * Has a round of these steps performed, and judged. Starts a process if there is none. After
 * FAULT_HANG and FAULT_END there is no process any more.
 */
void supervisor_round(struct supervisor *supervisor, const struct step_list *list,
		      struct verdict *verdict);

/* The steps of the last round that its threads have begun. */
void supervisor_performed(const struct supervisor *supervisor, struct step_list *list);

/* Ends the process. */
void supervisor_end(struct supervisor *supervisor);

/* Prints the steps that the threads of a hanging process are in. */
void supervisor_print_steps(const struct supervisor *supervisor, FILE *file);

#endif
