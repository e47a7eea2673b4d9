/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "supervisor.h"

#include "process.h"
#include "raw.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { POLL_MS = 100, SETTLE_POLL_US = 2000, START_MS = 60000 };

bool supervisor_init(struct supervisor *supervisor)
{
	supervisor->fd = memfd_create("tek-torture", 0);
	if (supervisor->fd < 0 || ftruncate(supervisor->fd, sizeof(struct shared)))
		return false;
	supervisor->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED,
				  supervisor->fd, 0);
	return supervisor->shared != MAP_FAILED;
}

static void execute(const struct supervisor *supervisor)
{
	char fd[16];
	char **arguments = calloc(supervisor->prefix_count + 4, sizeof(*arguments));
	unsigned int count = 0;

	if (!arguments)
		_exit(EXIT_FAILURE);
	snprintf(fd, sizeof(fd), "%d", supervisor->fd);
	for (; count < supervisor->prefix_count; count++)
		arguments[count] = supervisor->prefix[count];
	arguments[count++] = (char *)own_path;
	arguments[count++] = "--process";
	arguments[count] = fd;
	if (supervisor->library)
		setenv("LD_PRELOAD", supervisor->library, 1);
	setpgid(0, 0);
	execvp(arguments[0], arguments);
	_exit(EXIT_FAILURE);
}

/* Whether the process has ended by itself. */
static bool has_ended(struct supervisor *supervisor, int *status)
{
	if (waitpid(supervisor->pid, status, WNOHANG) != supervisor->pid)
		return false;
	supervisor->pid = 0;
	return true;
}

void supervisor_end(struct supervisor *supervisor)
{
	if (!supervisor->pid)
		return;
	kill(-supervisor->pid, SIGKILL);
	kill(supervisor->pid, SIGKILL);
	waitpid(supervisor->pid, NULL, 0);
	supervisor->pid = 0;
}

static void fail(struct verdict *verdict, enum fault_kind kind, int result)
{
	verdict->list[0] = (struct fault){.kind = kind, .step = MOST_STEPS, .result = result};
	verdict->faults = 1;
}

/* Waits until the process has done what it was told. Returns false if it never will. */
static bool await(struct supervisor *supervisor, long patience_ms, struct verdict *verdict)
{
	struct shared *shared = supervisor->shared;
	uint32_t progress = shared->progress;
	long still_ms = 0;
	int status;

	while (shared->next == FOR_PROCESS) {
		raw_wait(&shared->next, FOR_PROCESS, POLL_MS);
		still_ms = shared->progress == progress ? still_ms + POLL_MS : 0;
		progress = shared->progress;
		if (shared->next != FOR_PROCESS)
			break;
		if (has_ended(supervisor, &status)) {
			fail(verdict, FAULT_END, status);
			return false;
		}
		if (still_ms >= patience_ms) {
			fail(verdict, FAULT_HANG, (int)still_ms);
			return false;
		}
	}
	return true;
}

static bool command(struct supervisor *supervisor, enum order order, struct verdict *verdict)
{
	struct shared *shared = supervisor->shared;

	shared->order = order;
	shared->next = FOR_PROCESS;
	raw_wake(&shared->next);
	return await(supervisor, supervisor->hang_ms, verdict);
}

static bool start(struct supervisor *supervisor, struct verdict *verdict)
{
	supervisor->shared->next = FOR_PROCESS;
	supervisor->shared->count = 0;
	supervisor->pid = fork();
	if (supervisor->pid == 0)
		execute(supervisor);
	setpgid(supervisor->pid, supervisor->pid);
	return await(supervisor, START_MS, verdict);
}

static void judge_now(struct supervisor *supervisor, struct verdict *verdict)
{
	struct shared *shared = supervisor->shared;
	const uint32_t count = shared->count;
	const struct history history = {
		.list = &shared->list,
		.events = shared->events,
		.count = count < MOST_EVENTS ? count : MOST_EVENTS,
		.first = shared->first,
		.may_be_taken_back = supervisor->may_be_taken_back,
	};

	judge(&history, verdict);
}

/* A thread may get its own scheduling back a little later. */
static bool is_settled(const struct verdict *verdict)
{
	for (unsigned int i = 0; i < verdict->faults && i < MOST_FAULTS; i++)
		if (verdict->list[i].kind == FAULT_OWN)
			return false;
	return true;
}

void supervisor_round(struct supervisor *supervisor, const struct step_list *list,
		      struct verdict *verdict)
{
	struct shared *shared = supervisor->shared;
	struct verdict last = {0};

	memset(verdict, 0, sizeof(*verdict));
	if (!supervisor->pid && !start(supervisor, verdict))
		return;
	memset(shared->events, 0,
	       (shared->count < MOST_EVENTS ? shared->count : MOST_EVENTS) *
		       sizeof(shared->events[0]));
	shared->count = 0;
	shared->list = *list;
	if (!command(supervisor, ORDER_ROUND, verdict))
		return;
	judge_now(supervisor, verdict);
	supervisor->late += !is_settled(verdict);
	const uint64_t end = now_ns() + (uint64_t)supervisor->settle_ms * 1000000;
	const uint32_t count = shared->count;
	while (!is_settled(verdict) && now_ns() < end) {
		raw_sleep_us(SETTLE_POLL_US);
		/* Each look takes the place of the one before. */
		shared->count = count;
		if (!command(supervisor, ORDER_REST_AGAIN, verdict))
			return;
		judge_now(supervisor, verdict);
	}
	supervisor->events += verdict->steps * 2;
	if (!command(supervisor, ORDER_END_ROUND, &last))
		*verdict = last;
}

void supervisor_performed(const struct supervisor *supervisor, struct step_list *list)
{
	static bool has_begun[MOST_STEPS];
	const struct shared *shared = supervisor->shared;

	memset(has_begun, 0, sizeof(has_begun));
	for (uint32_t i = 0; i < shared->count && i < MOST_EVENTS; i++)
		if (shared->events[i].kind == EVENT_BEGIN)
			has_begun[shared->events[i].step % MOST_STEPS] = true;
	list->count = 0;
	for (unsigned int i = 0; i < shared->list.count; i++)
		if (has_begun[i])
			list->steps[list->count++] = shared->list.steps[i];
}

void supervisor_print_steps(const struct supervisor *supervisor, FILE *file)
{
	const struct shared *shared = supervisor->shared;
	int steps[SLOTS];
	char text[128];

	for (int i = 0; i < SLOTS; i++)
		steps[i] = -1;
	for (uint32_t i = 0; i < shared->count && i < MOST_EVENTS; i++) {
		const struct event *event = &shared->events[i];
		if (event->kind == EVENT_BEGIN)
			steps[event->slot] = event->step;
		else if (event->kind == EVENT_END || event->kind == EVENT_ENDS)
			steps[event->slot] = -1;
	}
	for (int i = 0; i < SLOTS; i++) {
		if (steps[i] < 0)
			continue;
		step_print(&shared->list.steps[steps[i]], text, sizeof(text));
		fprintf(file, "# in step %d: %s\n", steps[i], text);
	}
}
