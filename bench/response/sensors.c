/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sensors.h"

#include "clock.h"
#include "stage.h"
#include "switch_cost.h"
#include "threads.h"

#include <err.h>
#include <stdlib.h>
#include <unistd.h>

struct delay_series temp_delays, display_delays;

static uint64_t iterations_per_us;
static int readings[2]; /* a pipe from temp to display */

static void series_add(struct delay_series *series, uint64_t due_ns)
{
	if (series->count == series->room) {
		series->room = series->room ? 2 * series->room : 1024;
		series->delays = realloc(series->delays, series->room * sizeof(struct delay));
		if (!series->delays)
			err(EXIT_FAILURE, "cannot keep %zu delays", series->room);
	}
	series->delays[series->count++] = (struct delay){due_ns, clock_ns() - due_ns};
}

/* Sleep until the next whole period; those that were missed stay missed. */
static uint64_t next_period(uint64_t due_ns, uint64_t period_ns)
{
	uint64_t now = clock_ns();
	do
		due_ns += period_ns;
	while (due_ns < now);
	sleep_until(due_ns);
	return due_ns;
}

/*
 * A reading that was due at due_ns has been made.  One that outlasts the events counts,
 * so `before` is the stage in which the thread began to wait for it.
 */
static void count_stall(struct thread *self, enum stage before, uint64_t due_ns)
{
	enum stage after = stage_now();
	uint64_t late_ns = clock_ns() - due_ns;
	if (before <= STAGE_EVENTS && after >= STAGE_EVENTS && late_ns > self->stall_ns)
		self->stall_ns = late_ns;
}

/* Read something each period until STAGE_QUIET, and pass on when it was due unless NULL. */
static void read_periodically(struct thread *self, uint64_t period_ns, uint64_t work_us,
			      void (*pass_on)(uint64_t due_ns))
{
	enum stage before;

	stage_wait(STAGE_SENSE);
	uint64_t due = clock_ns();
	while ((before = stage_now()) < STAGE_QUIET) {
		uint64_t first_due = due + period_ns;
		due = next_period(due, period_ns);
		work(work_us * iterations_per_us);
		count_stall(self, before, first_due);
		if (pass_on)
			pass_on(due);
	}
}

static void door_run(struct thread *self)
{
	read_periodically(self, 50 * NS_PER_MS, 50, NULL);
	stage_parked();
	switch_cost_take_part(3);
}

static void gas_run(struct thread *self)
{
	read_periodically(self, 100 * NS_PER_MS, 100, NULL);
	stage_parked();
	switch_cost_take_part(4);
}

static void show_temperature(uint64_t due)
{
	series_add(&temp_delays, due);
	if (write(readings[1], &due, sizeof(due)) != sizeof(due))
		err(EXIT_FAILURE, "temp: cannot pass on a reading");
}

static void temp_run(struct thread *self)
{
	read_periodically(self, 40 * NS_PER_MS, 200, show_temperature);
	close(readings[1]);
	stage_parked();
}

static void display_run(struct thread *self)
{
	uint64_t due;

	for (;;) {
		enum stage before = stage_now();
		if (read(readings[0], &due, sizeof(due)) != sizeof(due))
			break;
		work(300 * iterations_per_us);
		count_stall(self, before, due);
		series_add(&display_delays, due);
	}
	stage_parked();
}

void sensors_add(const struct options *options)
{
	iterations_per_us = options->iterations_per_ms / 1000;
	if (pipe(readings))
		err(EXIT_FAILURE, "cannot make a pipe");
	thread_add("door", "normal", KIND_SENSOR, door_run);
	thread_add("gas", "service", KIND_SENSOR, gas_run);
	thread_add("temp", "urgent", KIND_SENSOR, temp_run);
	thread_add("display", "urgent", KIND_SENSOR, display_run);
}
