/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/posix/state.h"

#include "base/channel.h"
#include "base/line.h"
#include "base/user_memory.h"
#include "uthread/bound.h"
#include "uthread/kernel_thread.h"
#include "uthread/posix/exit.h"
#include "uthread/posix/router.h"
#include "uthread/posix/state_effect.h"
#include "uthread/worker.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void report(const char *what, const char *how, const char *why)
{
	struct tek_line line = {0};

	tek__line_add(&line, "tek: ");
	tek__line_add(&line, tek__channel_program());
	tek__line_add(&line, "[");
	tek__line_add_number(&line, (uint64_t)getpid());
	tek__line_add(&line, "]: ");
	tek__line_add(&line, what);
	tek__line_add(&line, how);
	tek__line_add(&line, why);
	tek__line_add(&line, ". To have it, run the program without --model.\n");
	tek__channel_report(line.text, line.length);
}

/* Once for each reason. */
static void report_refused(const struct tek_effect *effect)
{
	static const char *_Atomic reported[8];

	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++) {
		const char *before = NULL;
		if (atomic_compare_exchange_strong(&reported[i], &before, effect->what)) {
			report(effect->what, " fails: ", effect->why);
			return;
		}
		if (before == effect->what)
			return;
	}
}

static void report_no_carrier(void)
{
	static atomic_bool reported;

	if (!atomic_exchange(&reported, true))
		report("a thread cannot have kernel state of its own: ", "",
		       "no further kernel thread is to be had (EAGAIN; see `ulimit -u` and "
		       "pids.max)");
}

/* The change is made by the calling thread alone, or by the process. 0 or EAGAIN. */
static int prepare(struct tek_state_call *call, struct tek_effect effect)
{
	struct tek_uthread *self = tek_ut__here_self();

	call->of_process = effect.inherited && tek_ut__state_is_alone() &&
			   tek_ut__generation_begin();
	if (call->of_process) {
		self->changed = false;
		return 0;
	}
	const int error = tek_ut__bound_begin();
	if (!error && effect.inherited)
		self->changed = true;
	return error;
}

static bool begin(struct tek_state_call *call, struct tek_effect effect)
{
	const int before = errno;

	if (effect.is_refused) {
		report_refused(&effect);
		errno = effect.error;
		return false;
	}
	if (effect.binds && prepare(call, effect) != 0) {
		report_no_carrier();
		if (!effect.may_do_without) {
			errno = EAGAIN;
			return false;
		}
	}
	errno = before;
	return true;
}

/* The caller is a user-level thread, and no child of vfork(2) in its place. */
static bool is_thread(void)
{
	const struct tek_uthread *self = tek_ut__here_self();
	return self && self->posix && tek_ut__bound_is_own_carrier();
}

bool tek_ut__state_begin(struct tek_state_call *call)
{
	call->of_process = false;
	return !is_thread() || begin(call, tek_ut__effect_of(call));
}

/* The engine's kernel threads have the earlier state. */
static atomic_bool is_to_finish;

/*
 * A filter may forbid making kernel threads, so none is made before the program itself makes one.
 */
static bool is_filter(const struct tek_state_call *call)
{
	return call->number == SYS_seccomp ||
	       (call->number == SYS_prctl && call->argument[0] == PR_SET_SECCOMP);
}

void tek_ut__state_finish(void)
{
	const int before = errno;

	if (!atomic_load(&is_to_finish) || !atomic_exchange(&is_to_finish, false))
		return;
	const pid_t router = tek_ut__router_stop();
	int error = tek_ut__generation_end();
	tek_ut__kernel_thread_await_end(router);
	if (!error)
		error = tek_ut__router_start_again();
	if (error)
		report_no_carrier();
	errno = before;
}

void tek_ut__state_end(const struct tek_state_call *call)
{
	if (!call->of_process)
		return;
	atomic_store(&is_to_finish, true);
	if (!is_filter(call))
		tek_ut__state_finish();
}

static bool begin_own(struct tek_state_call *call)
{
	call->of_process = false;
	return !is_thread() || begin(call, tek_ut__changes);
}

bool tek_ut__state_begin_timer(struct tek_state_call *call, struct sigevent *own)
{
	const struct sigevent *event = (const struct sigevent *)call->argument[1];

	if (!event || !tek__user_copy(own, event, sizeof(*own)) ||
	    own->sigev_notify != SIGEV_THREAD_ID ||
	    own->sigev_notify_thread_id != (pid_t)syscall(SYS_gettid))
		return tek_ut__state_begin(call);
	call->of_process = false;
	if (is_thread() && !begin(call, tek_ut__binds))
		return false;
	own->sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	call->argument[1] = (unsigned long)own;
	return true;
}

/* The text behind a number and '/', if the text begins so; else NULL. */
static const char *behind_number(const char *text, pid_t *number)
{
	pid_t value = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9' && value < INT_MAX / 10; at++)
		value = value * 10 + (*at - '0');
	*number = value;
	return at > text && *at == '/' ? at + 1 : NULL;
}

static const char *behind(const char *text, const char *prefix)
{
	const size_t length = strlen(prefix);
	return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/*
 * The rest of a path to a file of the calling thread in /proc, such as "attr/current"; NULL: it is
 * another path.
 */
static const char *own_file_in_proc(const char *path)
{
	pid_t number;
	const char *rest = behind(path, "/proc/thread-self/");

	if (rest)
		return rest;
	rest = behind(path, "/proc/");
	if (!rest)
		return NULL;
	const char *task = behind(rest, "self/");
	if (!task) {
		task = behind_number(rest, &number);
		if (!task || number != getpid())
			return NULL;
	}
	task = behind(task, "task/");
	rest = task ? behind_number(task, &number) : NULL;
	return rest && tek_ut__state_is_own_tid(number) ? rest : NULL;
}

/* A thread that writes 0 there moves itself. */
static bool is_list_of_threads(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	return strcmp(name, "cgroup.threads") == 0 ||
	       (strcmp(name, "tasks") == 0 && behind(path, "/sys/fs/cgroup/"));
}

bool tek_ut__state_is_own_file(const char *path)
{
	return path && path[0] == '/' && is_thread() &&
	       (own_file_in_proc(path) || is_list_of_threads(path));
}

bool tek_ut__state_begin_file(struct tek_state_call *call, const char *path, char *room,
			      size_t size)
{
	const char *rest = own_file_in_proc(path);

	if (!begin_own(call))
		return false;
	/* Its thread id may be another one now. */
	if (rest)
		snprintf(room, size, "/proc/thread-self/%s", rest);
	else
		snprintf(room, size, "%s", path);
	return true;
}
