/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The program of `tek bench matrix`: a thread `touch` answers events beside CPU-bound processes,
 * and waits for other threads meanwhile.  It prints one line of JSON.
 */
#include "hogs.h"
#include "row.h"
#include "schedule.h"

#include "../response/clock.h"
#include "../response/number.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Hogs and background threads are at work before the first event. */
#define WARM_UP_NS 50000000ull

struct shared *shared;
bool inherit;

static const struct row *row;
static unsigned events = 25, limit_s = 60;
static struct hogs hogs;
static uint64_t iterations_per_ms;
static enum schedule schedule;
static const char *counters;
static bool only_hogs;
static uint64_t *responses_ns, phase_ns, background, hog_loops;
static int policy, nice_value;

static const char help[] =
	"Usage: %s [options]\n"
	"Answers events beside CPU-bound processes and prints a line of JSON.\n"
	"\n"
	"  --row NAME              what the thread touch waits for: none (default), mutex, chain,\n"
	"                          rwlock, condvar, word-mutex, rust-mutex, shared-mutex,\n"
	"                          join, pipe, socket, redis, memcached, fsync, memory, threads, "
	"all,\n"
	"                          dbus (of dependencies-dbus), mariadb (of dependencies-mariadb)\n"
	"  --library FILE          the mutex of the row rust-mutex\n"
	"  --events N              events to answer (default 25)\n"
	"  --hogs N                CPU-bound processes (default 0)\n"
	"  --hogs-group DIRECTORY  each of them enters this control group\n"
	"  --hogs-user UID         each of them becomes this user; needs root\n"
	"  --only-hogs             start nothing else, and run until a signal\n"
	"  --counters FILE         count in this file, which several processes can share\n"
	"  --nice                  touch has nice value -20\n"
	"  --real-time             touch has SCHED_RR 50\n"
	"  --rtkit                 touch asks rtkit for SCHED_RR, by dbus-send\n"
	"  --inherit               mutexes have PTHREAD_PRIO_INHERIT\n"
	"  --iterations-per-ms N   speed of this CPU, as --calibrate printed it\n"
	"  --calibrate             print the speed of this CPU and exit\n"
	"  --limit S               end after S seconds in any case (default 60)\n"
	"  --help                  this text\n";

void must(int error, const char *what)
{
	errno = error;
	if (error)
		err(EXIT_FAILURE, "%s", what);
}

void work_ms(unsigned ms)
{
	work(ms * iterations_per_ms);
}

void background_did(void)
{
	__atomic_fetch_add(&shared->background, 1, __ATOMIC_RELAXED);
}

void hog_did(void)
{
	__atomic_fetch_add(&shared->hogs, 1, __ATOMIC_RELAXED);
}

struct start {
	const char *name;
	void *(*run)(void *);
	void *arg;
};

static void *named(void *arg)
{
	struct start start = *(struct start *)arg;
	free(arg);
	pthread_setname_np(pthread_self(), start.name);
	return start.run(start.arg);
}

static pthread_t thread_named(const char *name, void *(*run)(void *), void *arg)
{
	pthread_t thread;
	struct start *start = malloc(sizeof(*start));
	if (!start)
		err(EXIT_FAILURE, "malloc");
	*start = (struct start){.name = name, .run = run, .arg = arg};
	must(pthread_create(&thread, NULL, named, start), "pthread_create");
	return thread;
}

void thread_start(const char *name, void *(*run)(void *), void *arg)
{
	thread_named(name, run, arg);
}

void end_with(pid_t parent)
{
	/* A parent that ended before prctl() sends no signal. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAILURE);
}

bool child_start(void)
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		err(EXIT_FAILURE, "cannot start a process");
	if (child)
		return false;
	end_with(parent);
	alarm(limit_s);
	return true;
}

static uint64_t event_wait(void)
{
	if (row->event)
		return row->event();
	uint64_t due = clock_ns() + PAUSE_NS;
	sleep_until(due);
	if (row->wait)
		row->wait();
	return due;
}

static void *touch(void *arg)
{
	(void)arg;
	schedule_self(schedule);
	sleep_until(clock_ns() + WARM_UP_NS);
	uint64_t begin = clock_ns();
	background = __atomic_load_n(&shared->background, __ATOMIC_RELAXED);
	hog_loops = __atomic_load_n(&shared->hogs, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < events; i++) {
		uint64_t at = event_wait();
		work_ms(ANSWER_MS);
		responses_ns[i] = clock_ns() - at;
	}
	phase_ns = clock_ns() - begin;
	background = __atomic_load_n(&shared->background, __ATOMIC_RELAXED) - background;
	hog_loops = __atomic_load_n(&shared->hogs, __ATOMIC_RELAXED) - hog_loops;
	/* The system calls themselves, so that no library answers in the kernel's place. */
	policy = (int)syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK;
	nice_value = 20 - (int)syscall(SYS_getpriority, PRIO_PROCESS, 0);
	return NULL;
}

static void report(void)
{
	printf("{\"responses_ns\":[");
	for (unsigned i = 0; i < events; i++)
		printf("%s%" PRIu64, i ? "," : "", responses_ns[i]);
	printf("],\"phase_ns\":%" PRIu64 ",\"background\":%" PRIu64 ",\"hogs\":%" PRIu64
	       ",\"policy\":%d,\"nice\":%d}\n",
	       phase_ns, background, hog_loops, policy, nice_value);
	fflush(stdout);
}

static const struct row *row_named(const char *name)
{
	const struct row *const lists[] = {
		lock_rows,    other_rows, rust_rows, memory_rows, cache_rows,
#ifdef HAVE_DBUS
		bus_rows,
#endif
#ifdef HAVE_MARIADB
		mariadb_rows,
#endif
	};
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (const struct row *one = lists[i]; one->name; one++) {
			if (!strcmp(one->name, name))
				return one;
		}
	}
	errx(2, "there is no row '%s' (see --help)", name);
}

/* The rows whose dependencies the row `all` has, one after the other. */
static const char *const parts[] = {"mutex", "rwlock", "pipe", "fsync", "threads"};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static void all_prepare(void)
{
	for (size_t i = 0; i < PARTS; i++) {
		if (row_named(parts[i])->prepare)
			row_named(parts[i])->prepare();
	}
}

static void all_start(void)
{
	for (size_t i = 0; i < PARTS; i++) {
		if (row_named(parts[i])->start)
			row_named(parts[i])->start();
	}
}

static void all_wait(void)
{
	for (size_t i = 0; i < PARTS; i++) {
		if (row_named(parts[i])->wait)
			row_named(parts[i])->wait();
	}
}

static const struct row all_row = {
	.name = "all", .prepare = all_prepare, .start = all_start, .wait = all_wait};

static void parse_one(int option, const char *name)
{
	switch (option) {
	case 'r':
		row = strcmp(optarg, all_row.name) ? row_named(optarg) : &all_row;
		break;
	case 'b':
		rust_library = optarg;
		break;
	case 'e':
		events = (unsigned)number(name, optarg, 1, 100000);
		break;
	case 'h':
		hogs.count = (unsigned)number(name, optarg, 0, 1000);
		break;
	case 'g':
		hogs.group = optarg;
		break;
	case 'u':
		hogs.user = (uid_t)number(name, optarg, 1, UINT32_MAX - 1);
		hogs.is_other_user = true;
		break;
	case 'o':
		only_hogs = true;
		break;
	case 'f':
		counters = optarg;
		break;
	case 's':
		iterations_per_ms = number(name, optarg, 1, 1000000000);
		break;
	case 'l':
		limit_s = (unsigned)number(name, optarg, 1, 86400);
		break;
	case 'n':
		schedule = SCHEDULE_NICE;
		break;
	case 't':
		schedule = SCHEDULE_REAL_TIME;
		break;
	case 'k':
		schedule = SCHEDULE_RTKIT;
		break;
	case 'i':
		inherit = true;
		break;
	case 'c':
		printf("{\"iterations_per_ms\":%" PRIu64 "}\n", calibrate());
		exit(0);
	case '?':
		exit(2);
	}
}

static void parse(int argc, char **argv)
{
	static const struct option table[] = {
		{"row", required_argument, NULL, 'r'},
		{"library", required_argument, NULL, 'b'},
		{"events", required_argument, NULL, 'e'},
		{"hogs", required_argument, NULL, 'h'},
		{"hogs-group", required_argument, NULL, 'g'},
		{"hogs-user", required_argument, NULL, 'u'},
		{"only-hogs", no_argument, NULL, 'o'},
		{"counters", required_argument, NULL, 'f'},
		{"iterations-per-ms", required_argument, NULL, 's'},
		{"limit", required_argument, NULL, 'l'},
		{"nice", no_argument, NULL, 'n'},
		{"real-time", no_argument, NULL, 't'},
		{"rtkit", no_argument, NULL, 'k'},
		{"inherit", no_argument, NULL, 'i'},
		{"calibrate", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'H'},
		{NULL, 0, NULL, 0},
	};
	int index = 0, option;
	row = row_named("none");
	while ((option = getopt_long(argc, argv, "", table, &index)) != -1) {
		if (option == 'H') {
			printf(help, argv[0]);
			exit(EXIT_SUCCESS);
		}
		parse_one(option, table[index].name);
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s' (see --help)", argv[optind]);
}

/* The memory that processes share: of this process and its children, or a file. */
static void shared_map(void)
{
	int flags = MAP_SHARED, file = -1;
	struct stat stat;
	if (!counters) {
		flags |= MAP_ANONYMOUS;
	} else {
		file = open(counters, O_RDWR | O_CLOEXEC);
		if (file < 0 || fstat(file, &stat))
			err(EXIT_FAILURE, "cannot open %s", counters);
		if (stat.st_size < (off_t)sizeof(*shared))
			errx(EXIT_FAILURE, "%s is too short", counters);
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, flags, file, 0);
	if (shared == MAP_FAILED)
		err(EXIT_FAILURE, "cannot allocate memory");
}

/* Waits until the hogs of another process are at work, which count in the same file. */
static void other_hogs_await(void)
{
	while (counters && !__atomic_load_n(&shared->hogs, __ATOMIC_RELAXED))
		sleep_until(clock_ns() + NS_PER_MS);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	if (!iterations_per_ms)
		iterations_per_ms = calibrate();
	alarm(limit_s);
	shared_map();
	if (only_hogs) {
		hogs_start(&hogs);
		hogs_verify(true);
		errx(2, "--only-hogs needs --hogs");
	}
	responses_ns = calloc(events, sizeof(*responses_ns));
	if (!responses_ns)
		err(EXIT_FAILURE, "cannot allocate memory");
	if (row->prepare)
		row->prepare();
	if (hogs.count && row->press)
		row->press();
	hogs_start(&hogs);
	other_hogs_await();
	if (row->start)
		row->start();
	must(pthread_join(thread_named("touch", touch, NULL), NULL), "pthread_join");
	hogs_verify(false);
	report();
	/* Not exit(): background threads still run. */
	_exit(EXIT_SUCCESS);
}
