/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "event_path.h"

#include "clock.h"
#include "mailbox.h"
#include "stage.h"
#include "switch_cost.h"
#include "threads.h"

#include <err.h>
#include <stdlib.h>

/* CPU work of each thread for an event, in us. */
#define TOUCH_US 200
#define UI_US 10000
#define RENDER_US 9800

/* The pause before an event: 40 ms to 80 ms. */
#define PAUSE_MIN_NS (40 * NS_PER_MS)
#define PAUSE_RANGE_NS (40 * NS_PER_MS)

/* A message is the time an event was due, or this. */
#define NO_MORE_EVENTS 0

uint64_t *responses_ns;

static const struct options *script;
static struct mailbox to_ui = MAILBOX_INITIALIZER;
static struct mailbox to_render = MAILBOX_INITIALIZER;
static struct mailbox to_touch = MAILBOX_INITIALIZER;
static struct mailbox to_main = MAILBOX_INITIALIZER;

static void work_us(uint64_t us)
{
	work(script->iterations_per_ms * us / 1000);
}

/* splitmix64: the same script for the same seed everywhere. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void touch_run(struct thread *self)
{
	uint64_t random = script->seed;

	(void)self;
	stage_wait(STAGE_EVENTS);
	for (unsigned i = 0; i < script->events && !script->observe_s; i++) {
		uint64_t due = clock_ns() + PAUSE_MIN_NS + next_random(&random) % PAUSE_RANGE_NS;
		sleep_until(due);
		work_us(TOUCH_US);
		mailbox_put(&to_ui, due);
		mailbox_take(&to_touch);
	}
	mailbox_put(&to_ui, NO_MORE_EVENTS);
	mailbox_put(&to_main, NO_MORE_EVENTS);
	switch_cost_take_part(0);
}

static void ui_run(struct thread *self)
{
	uint64_t due;

	(void)self;
	while ((due = mailbox_take(&to_ui)) != NO_MORE_EVENTS) {
		work_us(UI_US);
		mailbox_put(&to_render, due);
	}
	mailbox_put(&to_render, NO_MORE_EVENTS);
	switch_cost_take_part(1);
}

static void render_run(struct thread *self)
{
	uint64_t due;

	(void)self;
	for (unsigned i = 0; (due = mailbox_take(&to_render)) != NO_MORE_EVENTS; i++) {
		work_us(RENDER_US);
		responses_ns[i] = clock_ns() - due;
		mailbox_put(&to_touch, due);
	}
	switch_cost_take_part(2);
}

void event_path_add(const struct options *options)
{
	script = options;
	responses_ns = calloc(options->events, sizeof(*responses_ns));
	if (!responses_ns)
		err(EXIT_FAILURE, "cannot keep %u responses", options->events);
	thread_add("touch", "urgent", KIND_EVENT, touch_run);
	thread_add("ui", "urgent", KIND_EVENT, ui_run);
	thread_add("render", "urgent", KIND_EVENT, render_run);
}

void event_path_wait(void)
{
	mailbox_take(&to_main);
}
