/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "threads/report.h"

#include "base/channel.h"
#include "base/clock.h"
#include "base/module.h"
#include "base/overflow_text.h"
#include "base/procfs.h"
#include "threads/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct tek_noted noted_now;
static bool refused_once;
static bool not_placed_once;

void tek__report_start(void)
{
	tek__channel_start();
}

static int print_refused(char *line, size_t size, const struct tek_event *event)
{
	const char *program = (const char *)event->program, *thread = (const char *)event->thread;
	const char *tekd = (const char *)event->text, *error = strerrordesc_np(event->error);

	if (tekd[0])
		return snprintf(
			line, size,
			"tek: %s[%u]: thread \"%s\" may not become time-critical by itself, "
			"and tekd does not make it so: %s. `tek status` shows which users it "
			"serves.\n",
			program, event->pid, thread, tekd);
	if (event->error != EPERM)
		return snprintf(line, size,
				"tek: %s[%u]: thread \"%s\" cannot become time-critical: %s\n",
				program, event->pid, thread, error);
	/* Root lacks the right in a container, or after it has dropped a capability. */
	if (geteuid() == 0)
		return snprintf(
			line, size,
			"tek: %s[%u]: thread \"%s\" may not become time-critical: %s. `tek doctor` "
			"says what is missing; a container gets the right with "
			"--cap-add=SYS_NICE, a systemd unit with LimitRTPRIO=60.\n",
			program, event->pid, thread, error);
	return snprintf(
		line, size,
		"tek: %s[%u]: thread \"%s\" may not become time-critical: %s. Start tekd, or raise "
		"the limit as root: now `prlimit --pid %d --rtprio=60:60`, then start the program "
		"again from the same shell; for good `echo :%u - rtprio 60 "
		"> /etc/security/limits.d/tek.conf`; for a service LimitRTPRIO=60 in its "
		"unit.\n",
		program, event->pid, thread, error, (int)getppid(), (unsigned)getuid());
}

static void append_event(const struct tek_event *event)
{
	char line[512];
	int length;

	switch (event->kind) {
	case TEK_EVENT_REFUSED:
		length = print_refused(line, sizeof(line), event);
		break;
	case TEK_EVENT_OVERRAN:
		if (event->text[0]) {
			length = snprintf(
				line, sizeof(line),
				"tek: %s[%u]: thread \"%s\"[%u] %s, and is not time-critical "
				"for now\n",
				(const char *)event->program, event->pid,
				(const char *)event->thread, event->tid, (const char *)event->text);
			break;
		}
		length = snprintf(
			line, sizeof(line),
			"tek: %s[%u]: thread \"%s\"[%u] used %llu ms of CPU time in %llu ms "
			"and is not time-critical for the next %llu ms\n",
			(const char *)event->program, event->pid, (const char *)event->thread,
			event->tid, event->value[0] / 1000000, event->value[1] / 1000000,
			event->value[2] / 1000000);
		break;
	case TEK_EVENT_NOT_PLACED:
		length = snprintf(
			line, sizeof(line),
			"tek: %s[%u]: thread \"%s\"[%u] shares CPUs as before, because tekd "
			"does not put it into its group: %s. `tek groups` shows them.\n",
			(const char *)event->program, event->pid, (const char *)event->thread,
			event->tid, (const char *)event->text);
		break;
	case TEK_EVENT_NOT_COVERED: /* as `tek run` says it */
		length = snprintf(line, sizeof(line), "tek: %s %s: it runs, but not under TEK\n",
				  (const char *)event->program, (const char *)event->text);
		break;
	case TEK_EVENT_BAD_OPTION:
		length = snprintf(line, sizeof(line), "tek: %s: %s\n", (const char *)event->program,
				  (const char *)event->text);
		break;
	default:
		return;
	}
	if (length > 0)
		tek__channel_report(line, (size_t)length < sizeof(line) ? (size_t)length
									: sizeof(line) - 1);
}

static void write_event(const struct tek_event *event)
{
	int saved = errno, cancellation;

	/* The function of the program that is reported on is seldom a cancellation point. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
	/* A program that gave up its privilege may not open the file of the run any more. */
	if (!tek__channel_append(event))
		append_event(event);
	pthread_setcancelstate(cancellation, NULL);
	errno = saved;
}

static struct tek_event make_event(unsigned int kind, const struct tek_thread *thread)
{
	struct tek_event event = tek__channel_event(kind);

	if (!thread)
		return event;

	event.tid = (tek_u32)thread->tid;
	event.priority = thread->member.nice;
	if (thread->named) {
		memcpy(event.thread, thread->name, sizeof(event.thread));
		return event;
	}
	/* It bears the name that it inherited; that says more than nothing. */
	if (thread->tid == tek__gettid()) {
		syscall(SYS_prctl, PR_GET_NAME, event.thread);
		return event;
	}
	tek__procfs_thread_name(thread->tid, (char *)event.thread);
	return event;
}

static void note(const struct tek_event *event)
{
	if (noted_now.count < sizeof(noted_now.events) / sizeof(noted_now.events[0]))
		noted_now.events[noted_now.count++] = *event;
	else
		write_event(event);
}

void tek__report_refused(const struct tek_thread *thread, int error, const char *why)
{
	if (refused_once)
		return;
	refused_once = true;
	struct tek_event event = make_event(TEK_EVENT_REFUSED, thread);
	event.error = error;
	strcpy((char *)event.text, why);
	note(&event);
}

void tek__report_not_placed(const struct tek_thread *thread, int error, const char *why)
{
	if (not_placed_once)
		return;
	not_placed_once = true;
	struct tek_event event = make_event(TEK_EVENT_NOT_PLACED, thread);
	event.error = error;
	event.value[0] = thread->member.group;
	strcpy((char *)event.text, why);
	note(&event);
}

void tek__report_overrun(const struct tek_thread *thread, uint64_t used_ns, uint64_t window_ns,
			 uint64_t ban_ns)
{
	struct tek_event event = make_event(TEK_EVENT_OVERRAN, thread);
	event.value[0] = used_ns;
	event.value[1] = window_ns;
	event.value[2] = ban_ns;
	note(&event);
}

void tek__report_overrun_of(const struct tek_thread *thread, uint64_t used_ns, uint64_t allowed_ns)
{
	struct tek_event event = make_event(TEK_EVENT_OVERRAN, thread);
	event.value[0] = used_ns;
	snprintf((char *)event.text, sizeof(event.text),
		 "used %llu ms of CPU time, of %llu ms that tekd allows it",
		 (unsigned long long)used_ns / 1000000, (unsigned long long)allowed_ns / 1000000);
	note(&event);
}

/* Voluntary and other context switches of a thread, from /proc; 0 where that is not mounted. */
static uint64_t context_switches(pid_t tid)
{
	char text[2048];
	struct rusage usage;
	uint64_t sum = 0;

	/* The usual case, a thread at its end, needs neither a file nor much of its stack. */
	if (tid == tek__gettid() && getrusage(RUSAGE_THREAD, &usage) == 0)
		return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;

	if (!tek__procfs_text(tid, "status", text, sizeof(text)))
		return 0;
	for (const char *at = text; (at = strstr(at, "voluntary_ctxt_switches:"));) {
		at = strchr(at, ':') + 1;
		sum += strtoull(at, NULL, 10);
	}
	return sum;
}

void tek__report_summary(const struct tek_thread *thread)
{
	const struct tek_member *member = &thread->member;
	uint64_t cpu = 0;

	if (member->stays == 0 || !tek__channel_has_file())
		return;
	struct tek_event event = make_event(TEK_EVENT_SUMMARY, thread);
	event.value[0] = member->fast_ns +
			 (member->fast_since_ns ? tek__now(CLOCK_BOOTTIME) - member->fast_since_ns
						: 0);
	event.value[1] = member->stays;
	event.value[2] = context_switches(thread->tid);
	if (tek__thread_cpu_time(thread->tid, &cpu))
		event.value[3] = cpu;
	event.error = (tek_s32)member->overruns;
	note(&event);
}

void tek__report_stack_high(const struct tek_thread *thread)
{
	struct tek_event event = make_event(TEK_EVENT_STACK_HIGH, thread);
	event.value[0] = thread->stack.use.peak_bytes;
	event.value[1] = thread->stack.use.bound_bytes;
	event.value[2] = thread->stack.bytes;
	memcpy(event.text, thread->role, thread->role_bytes);
	note(&event);
}

void tek__report_overflow(const struct tek_thread *thread, uintptr_t address,
			  const struct tek_backtrace *trace)
{
	struct tek_event event = make_event(TEK_EVENT_OVERFLOW, thread);
	event.error = thread->stack.flags & TEK_STACK_TUNED ? 1 : 0;
	event.value[0] = thread->stack.bytes;
	event.value[1] = address;
	memcpy(event.text, thread->role, thread->role_bytes);
	tek__overflow_report(&event, thread->birth.function, trace);
}

void tek__report_bad_option(const char *name, const char *text)
{
	struct tek_event event = make_event(TEK_EVENT_BAD_OPTION, NULL);
	snprintf((char *)event.text, sizeof(event.text), "%s is not understood and ignored: %s",
		 name, text);
	write_event(&event);
}

void tek__report_place(const char *why)
{
	struct tek_event event = make_event(TEK_EVENT_BAD_OPTION, NULL);
	snprintf((char *)event.text, sizeof(event.text), "placement: %s", why);
	note(&event);
}

void tek__report_crowd(const char *option, const char *kind, const char *cure, unsigned int threads,
		       unsigned int cpus)
{
	struct tek_event event = make_event(TEK_EVENT_BAD_OPTION, NULL);
	snprintf((char *)event.text, sizeof(event.text),
		 "%s %s is slow with more threads (%u) than CPUs (%u): use %s %s", option, kind,
		 threads, cpus, option, cure);
	note(&event);
}

void tek__report_confined(const char *call)
{
	struct tek_event event = make_event(TEK_EVENT_BAD_OPTION, NULL);
	snprintf((char *)event.text, sizeof(event.text),
		 "a seccomp filter of %.40s kills for %s: it goes on without TEK",
		 tek__channel_program(), call);
	note(&event);
}

void tek__report_not_covered(const char *path, const char *why)
{
	struct tek_event event = make_event(TEK_EVENT_NOT_COVERED, NULL);
	memset(event.program, 0, sizeof(event.program));
	tek__channel_copy_tail(event.program, sizeof(event.program), path);
	snprintf((char *)event.text, sizeof(event.text), "%s", why);
	write_event(&event);
}

void tek__report_lacking(const char *path, const char *names)
{
	struct tek_event event = make_event(TEK_EVENT_BAD_OPTION, NULL);
	const char *slash = strrchr(path, '/');

	snprintf((char *)event.text, sizeof(event.text),
		 "%s is of another word size: it runs without %s", slash ? slash + 1 : path, names);
	write_event(&event);
}

bool tek__report_pending(void)
{
	return noted_now.count > 0;
}

void tek__report_take(struct tek_noted *noted)
{
	*noted = noted_now;
	noted_now.count = 0;
}

void tek__report_forget(void)
{
	noted_now.count = 0;
}

void tek__report_write(const struct tek_noted *noted)
{
	for (unsigned int i = 0; i < noted->count; i++)
		write_event(&noted->events[i]);
}
