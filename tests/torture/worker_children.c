/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Steps that create threads and processes. */
#include "worker.h"

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

static void born(struct slot *self)
{
	struct event event = {
		.kind = EVENT_BORN, .slot = (uint8_t)self->number, .step = self->step};

	raw_scheduling(0, &event.scheduling);
	record(shared, event);
}

/* No cancellation point, unlike waitpid(2). */
static int wait_for(pid_t pid)
{
	int status = 0;

	while (syscall(SYS_wait4, pid, &status, 0, NULL) < 0 && errno == EINTR)
		;
	return status;
}

static void die(struct slot *self, const struct step *step)
{
	const struct timespec soon = time_in_us(CLOCK_REALTIME, 2000);

	(void)self;
	(void)pthread_mutex_timedlock(locks.mutexes[MUTEX_SHARED_ROBUST], &soon);
	raw_sleep_us(step->argument);
	syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

/* `--report FD SLOT STEP`: the program that is executed. */
static void execute(struct slot *self, bool by_spawn)
{
	char fd[16], slot[16], step[16];
	char *arguments[] = {(char *)own_path, "--report", fd, slot, step, NULL};
	char *environment[] = {NULL};
	pid_t pid;

	snprintf(fd, sizeof(fd), "%d", shared_fd);
	snprintf(slot, sizeof(slot), "%u", self->number);
	snprintf(step, sizeof(step), "%u", self->step);
	if (!by_spawn)
		execve(own_path, arguments, environment);
	else if (posix_spawn(&pid, own_path, NULL, NULL, arguments, environment) == 0)
		wait_for(pid);
}

static int in_fork(struct slot *self, const struct step *step)
{
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (pid == 0) {
		if (step->op == OP_FORK)
			born(self);
		else if (step->op == OP_DIE)
			die(self, step);
		else
			execute(self, false);
		_exit(0);
	}
	wait_for(pid);
	return 0;
}

/* Takes the right to create the thread of a slot. No thread can join it before it is there. */
static bool claim(const struct slot *self, struct slot *child)
{
	uint32_t none = STATE_NONE;

	return child->number >= WORKERS && child != self &&
	       atomic_compare_exchange_strong(&child->state, &none, STATE_OVER);
}

int perform_child(struct slot *self, const struct step *step)
{
	struct slot *child = &slots[step->object];
	int result = 0;

	/* Two slots that create each other's threads do not wait for each other's gates. */
	if (step->op == OP_CREATE && !claim(self, child))
		return STEP_LEFT_OUT;
	/* No other thread changes the scheduling that the child inherits. */
	raw_lock(&self->gate);
	self->holds_gate = true;
	step_begins(self);
	if (step->op == OP_CREATE)
		result = slot_start(child);
	else if (step->op == OP_SPAWN)
		execute(self, true);
	else
		result = in_fork(self, step);
	self->holds_gate = false;
	raw_unlock(&self->gate);
	return result;
}
