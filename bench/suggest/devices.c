/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs of ten devices.  Of each of their threads it is known whether a user or a device waits
 * for what it does.
 *
 * Usage: devices NAME SECONDS FD...          the program: a pipe for each of its sources of events
 *        devices NAME --world SECONDS FD...  what happens around it: writes events to these pipes
 *        devices NAME --answers              "critical", "clock" or "other", and the name, of each
 *        thread
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum what {
	NONE,
	EVENT,    /* read an event from the source with this number, work, pass it on */
	TAKE,     /* take from the thread before, work, pass on */
	SHARE,    /* the same, from the same queue as the thread before */
	CLOCK,    /* each so many us, work, pass on */
	WAIT_FOR, /* as CLOCK, by pthread_cond_timedwait */
	STORE,    /* take from the thread before, write and sync a file */
	LONG,     /* work, pause for so many us */
	HOG,
	FLOOD, /* pass on to the next one, which passes back, at once */
	ECHO,
};

struct thread {
	const char *name;
	enum what what;
	unsigned number; /* of the source, or us */
	unsigned work_us;
	const char *answer;
};

struct device {
	const char *name;
	unsigned every_ms[4]; /* the mean pause between events, by source */
	struct thread threads[12];
};

static const struct device devices[] = {
	{"fridge",
	 {160},
	 {{"touch", EVENT, 0, 200, "critical"},
	  {"ui", TAKE, 0, 8000, "critical"},
	  {"render", TAKE, 0, 8000, "critical"},
	  {"journal", STORE, 0, 100, "other"},
	  {"door", CLOCK, 50000, 50, "clock"},
	  {"gas", CLOCK, 100000, 100, "clock"},
	  {"temp", CLOCK, 40000, 200, "clock"},
	  {"display", TAKE, 0, 300, "clock"},
	  {"clean", CLOCK, 1000000, 500, "other"},
	  {"update", HOG, 0, 0, "other"}}},
	{"tv",
	 {250},
	 {{"remote", EVENT, 0, 500, "critical"},
	  {"menu", TAKE, 0, 12000, "critical"},
	  {"frames", CLOCK, 40000, 6000, "clock"},
	  {"demux", FLOOD, 0, 5, "other"},
	  {"decode", ECHO, 0, 20, "other"},
	  {"guide", CLOCK, 3000000, 20000, "other"},
	  {"record", HOG, 0, 0, "other"}}},
	{"car",
	 {12, 200},
	 {{"can", EVENT, 0, 40, "critical"},
	  {"cluster", TAKE, 0, 100, "critical"},
	  {"brake", EVENT, 1, 300, "critical"},
	  {"route", LONG, 300000, 120000, "other"},
	  {"log", STORE, 0, 100, "other"},
	  {"watchdog", CLOCK, 1000000, 50, "other"}}},
	{"robot",
	 {120},
	 {{"bumper", EVENT, 0, 100, "critical"},
	  {"motor", TAKE, 0, 400, "critical"},
	  {"control", CLOCK, 5000, 200, "clock"},
	  {"plan", HOG, 0, 0, "other"},
	  {"battery", WAIT_FOR, 2000000, 100, "other"}}},
	{"printer",
	 {9, 300},
	 {{"step", EVENT, 0, 60, "critical"},
	  {"panel", EVENT, 1, 5000, "critical"},
	  {"heater", CLOCK, 100000, 100, "clock"},
	  {"fan", WAIT_FOR, 200000, 50, "clock"},
	  {"slice-1", HOG, 0, 0, "other"},
	  {"slice-2", HOG, 0, 0, "other"}}},
	{"synth",
	 {140},
	 {{"midi", EVENT, 0, 50, "critical"},
	  {"voice", TAKE, 0, 900, "critical"},
	  {"buffer", CLOCK, 10667, 700, "clock"},
	  {"meter", CLOCK, 33333, 200, "clock"},
	  {"stream", LONG, 400000, 90000, "other"}}},
	{"gateway",
	 {30},
	 {{"accept", EVENT, 0, 60, "critical"},
	  {"serve-1", TAKE, 0, 700, "critical"},
	  {"serve-2", SHARE, 0, 700, "critical"},
	  {"serve-3", SHARE, 0, 700, "critical"},
	  {"stats", WAIT_FOR, 1000000, 300, "other"},
	  {"pack-1", LONG, 200000, 80000, "other"},
	  {"pack-2", LONG, 200000, 80000, "other"}}},
	{"doorbell",
	 {400},
	 {{"button", EVENT, 0, 100, "critical"},
	  {"chime", TAKE, 0, 3000, "critical"},
	  {"camera", CLOCK, 66667, 4000, "clock"},
	  {"upload", STORE, 0, 500, "other"},
	  {"encode", HOG, 0, 0, "other"}}},
	{"scanner",
	 {60},
	 {{"line", EVENT, 0, 800, "critical"},
	  {"filter", TAKE, 0, 4000, "critical"},
	  {"ocr", LONG, 100000, 300000, "other"},
	  {"lamp", CLOCK, 500000, 50, "clock"},
	  {"spool", FLOOD, 0, 5, "other"},
	  {"drain", ECHO, 0, 5, "other"}}},
	{"drone",
	 {25, 180},
	 {{"gyro", EVENT, 0, 80, "critical"},
	  {"attitude", TAKE, 0, 300, "critical"},
	  {"stick", EVENT, 1, 200, "critical"},
	  {"rotor", TAKE, 0, 200, "critical"},
	  {"beacon", CLOCK, 1000000, 100, "other"},
	  {"mapping", HOG, 0, 0, "other"}}},
};

/* Counts what was passed on. */
static struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned count;
} queues[13];

static const struct device *device;
static int sources[4];
static double end_s;

static double now_s(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void work(unsigned us)
{
	double end = now_s(CLOCK_THREAD_CPUTIME_ID) + us / 1e6;

	while (now_s(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void put(unsigned number)
{
	struct queue *queue = &queues[number];

	pthread_mutex_lock(&queue->lock);
	queue->count++;
	pthread_mutex_unlock(&queue->lock);
	pthread_cond_signal(&queue->changed);
}

static void take(unsigned number)
{
	struct queue *queue = &queues[number];

	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0)
		pthread_cond_wait(&queue->changed, &queue->lock);
	queue->count--;
	pthread_mutex_unlock(&queue->lock);
}

static struct timespec after(struct timespec time, unsigned us)
{
	time.tv_nsec += us % 1000000 * 1000L;
	time.tv_sec += us / 1000000 + time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static void sleep_us(unsigned us)
{
	struct timespec pause = {us / 1000000, us % 1000000 * 1000L};

	nanosleep(&pause, NULL);
}

static void wait_until(unsigned own, const struct timespec *due)
{
	struct queue *queue = &queues[own];

	pthread_mutex_lock(&queue->lock);
	while (queue->count == 0 &&
	       pthread_cond_timedwait(&queue->changed, &queue->lock, due) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&queue->lock);
}

static void store(unsigned work_us)
{
	char block[4096] = {0}, path[] = "devices.XXXXXX";
	int file = mkstemp(path);

	unlink(path);
	work(work_us);
	if (file < 0 || write(file, block, sizeof(block)) != sizeof(block) || fdatasync(file))
		err(EXIT_FAILURE, "cannot write a file here");
	close(file);
}

static void read_event(int source)
{
	char event;

	if (read(source, &event, 1) != 1)
		pause();
}

static void *live(void *argument)
{
	const struct thread *self = argument;
	unsigned own = (unsigned)(self - device->threads), from = own;
	struct timespec due;

	pthread_setname_np(pthread_self(), self->name);
	while (device->threads[from].what == SHARE)
		from--;
	unsigned next = own + 1;
	while (device->threads[next].what == SHARE)
		next++;
	enum what then = device->threads[next].what;
	bool passes = then == TAKE || then == STORE;
	clock_gettime(self->what == CLOCK ? CLOCK_MONOTONIC : CLOCK_REALTIME, &due);
	for (;;) {
		switch (self->what) {
		case EVENT:
			read_event(sources[self->number]);
			break;
		case TAKE:
		case SHARE:
			take(from);
			break;
		case CLOCK:
			due = after(due, self->number);
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
			break;
		case WAIT_FOR:
			due = after(due, self->number);
			wait_until(own, &due);
			break;
		case STORE:
			take(own);
			store(self->work_us);
			continue;
		case LONG:
			sleep_us(self->number);
			break;
		case FLOOD:
			put(own + 1);
			take(own);
			break;
		case ECHO:
			take(own);
			put(own - 1);
			break;
		case HOG:
			for (;;)
				work(1000);
		case NONE:
			return NULL;
		}
		work(self->work_us);
		if (passes)
			put(next);
	}
}

static void make_events(unsigned number)
{
	unsigned seed = number + 1;

	while (now_s(CLOCK_MONOTONIC) < end_s) {
		/* From a fifth of the mean to nine fifths, and now and then a pause. */
		unsigned mean_us = device->every_ms[number] * 1000;
		unsigned pause_us = mean_us / 5 + (unsigned)rand_r(&seed) % (mean_us * 8 / 5);
		sleep_us(rand_r(&seed) % 16 ? pause_us : 3 * mean_us);
		if (write(sources[number], "e", 1) != 1)
			break;
	}
}

static void *world(void *number)
{
	make_events((unsigned)(uintptr_t)number);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	bool is_world = argc > 2 && strcmp(argv[2], "--world") == 0;
	int first = is_world ? 4 : 3;

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]) && argc > 2; i++)
		if (strcmp(devices[i].name, argv[1]) == 0)
			device = &devices[i];
	if (!device)
		errx(2, "usage: devices NAME [--world] SECONDS FD...");
	if (strcmp(argv[2], "--answers") == 0) {
		for (const struct thread *it = device->threads; it->name; it++)
			printf("%s %s\n", it->answer, it->name);
		return 0;
	}
	double seconds = atof(argv[first - 1]);
	end_s = now_s(CLOCK_MONOTONIC) + seconds;
	alarm((unsigned)seconds + 60);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < argc - first && i < 4; i++)
		sources[i] = atoi(argv[first + i]);
	if (is_world) {
		for (uintptr_t i = 1; i < 4 && device->every_ms[i]; i++)
			pthread_create(&thread, NULL, world, (void *)i);
		make_events(0);
		return 0;
	}
	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].changed, NULL);
	}
	for (const struct thread *it = device->threads; it->name; it++)
		pthread_create(&thread, NULL, live, (void *)it);
	sleep_us((unsigned)(seconds * 1e6));
	return 0;
}
