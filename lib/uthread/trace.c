/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/trace.h"

#include "base/clock.h"
#include "uthread/carrier.h"
#include "uthread/monitor.h"
#include "uthread/trace_file.h"
#include "uthread/wait.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool tek_ut__trace_on;

static uint64_t start_ns;

/*
 * The blocks of a worker. All belongs to the thread on the worker, but for `next` and `full`, by
 * which blocks go from the monitor to the worker and back. `full` is set before `next` is taken.
 * The monitor reads `full` only when it has seen that `next` was taken (acquire, release). So there
 * is never a second full one.
 */
struct buffer {
	struct tek_trace_block *block; /* NULL: none yet */
	struct tek_trace_record *at, *end;
	uint64_t lost;
	bool busy;             /* a record is being written */
	unsigned int sequence; /* the monitor's: of blocks made */
	_Atomic(struct tek_trace_block *) next;
	_Atomic(struct tek_trace_block *) full;
} __attribute__((aligned(64)));

/* The last one is for kernel threads that are on no worker. */
static struct buffer buffers[TEK_WORKERS_MAX + 1];
static struct buffer *const outside = &buffers[TEK_WORKERS_MAX];
static atomic_flag outside_taken = ATOMIC_FLAG_INIT;

/* For each kind of wait: whether its word is in the file. */
static atomic_bool is_reported[TEK_WAITS_WORDS];

static void supply(struct buffer *buffer, unsigned int worker)
{
	if (atomic_load_explicit(&buffer->next, memory_order_acquire))
		return;
	tek_ut__trace_block_done(
		atomic_exchange_explicit(&buffer->full, NULL, memory_order_relaxed));
	struct tek_trace_block *block = tek_ut__trace_block_make(worker, buffer->sequence,
								 start_ns);
	if (!block)
		return;
	buffer->sequence++;
	atomic_store_explicit(&buffer->next, block, memory_order_release);
}

void tek_ut__trace_supply(void)
{
	if (!tek_ut__trace_on)
		return;
	for (unsigned int i = 0; i < tek_ut__worker_count; i++)
		supply(&buffers[i], i);
	supply(outside, TEK_TRACE_NO_WORKER);
}

void tek_ut__trace_start(const char *path)
{
	int error = tek_ut__trace_on ? EBUSY : tek_ut__trace_file_open(path);

	if (error) {
		dprintf(STDERR_FILENO, "tek: threads are not traced: %s: %s\n", path,
			error == EBADMSG ? "it is no trace of this version" : strerror(error));
		return;
	}
	start_ns = tek__now(CLOCK_MONOTONIC);
	tek_ut__trace_on = true;
	tek_ut__trace_supply();
}

void tek_ut__trace_end(void)
{
	tek_ut__trace_on = false;
}

/* It drops the mappings: records of a child would lie between those of its parent. */
static void forget(struct buffer *buffer)
{
	tek_ut__trace_block_done(buffer->block);
	tek_ut__trace_block_done(atomic_load(&buffer->next));
	tek_ut__trace_block_done(atomic_load(&buffer->full));
	memset(buffer, 0, sizeof(*buffer));
}

void tek_ut__trace_after_fork(void)
{
	if (!tek_ut__trace_on)
		return;
	for (unsigned int i = 0; i <= TEK_WORKERS_MAX; i++)
		forget(&buffers[i]);
	for (unsigned int i = 0; i < TEK_WAITS_WORDS; i++)
		atomic_store_explicit(&is_reported[i], false, memory_order_relaxed);
	atomic_flag_clear(&outside_taken);
	start_ns = tek__now(CLOCK_MONOTONIC);
	tek_ut__trace_supply();
}

/* The next block begins; false: there is none. */
static bool switch_buffer(struct buffer *buffer)
{
	struct tek_trace_block *next = atomic_load_explicit(&buffer->next, memory_order_acquire);

	if (!next)
		return false;
	atomic_store_explicit(&buffer->full, buffer->block, memory_order_relaxed);
	atomic_store_explicit(&buffer->next, NULL, memory_order_release);
	next->lost = buffer->lost;
	buffer->block = next;
	buffer->at = (struct tek_trace_record *)(next + 1);
	buffer->end = buffer->at + (TEK_TRACE_BLOCK_BYTES - sizeof(*next)) / sizeof(*buffer->at);
	tek_ut__monitor_wake();
	return true;
}

static void lose(struct buffer *buffer)
{
	buffer->lost++;
	if (buffer->block)
		buffer->block->lost = buffer->lost;
}

/* The record's time is set here, and last. */
static void write_record(struct buffer *buffer, const struct tek_trace_record *record)
{
	if (buffer->at == buffer->end && !switch_buffer(buffer)) {
		lose(buffer);
		return;
	}
	struct tek_trace_record *at = buffer->at++;
	*at = *record;
	/*
	 * The file is read after the process is gone: the kernel may kill it between two stores, no
	 * more.
	 */
	atomic_signal_fence(memory_order_release);
	*(volatile tek_u64 *)&at->time_ns = tek__now(CLOCK_MONOTONIC);
}

/*
 * A signal handler of the program may interrupt its thread in a record, and wake a thread: that
 * record is lost. `busy` shows it, without an atomic operation: both are on the same kernel thread.
 */
static void note(struct buffer *buffer, const struct tek_trace_record *record)
{
	if (*(volatile bool *)&buffer->busy) {
		lose(buffer);
		return;
	}
	*(volatile bool *)&buffer->busy = true;
	atomic_signal_fence(memory_order_acq_rel);
	write_record(buffer, record);
	atomic_signal_fence(memory_order_acq_rel);
	*(volatile bool *)&buffer->busy = false;
}

/*
 * Kernel threads that are on no worker write here, one at a time; a handler that interrupts one
 * does not.
 */
#define OUTSIDE_TRIES 200

static void note_outside(const struct tek_trace_record *record)
{
	unsigned int tries = 0;

	while (atomic_flag_test_and_set_explicit(&outside_taken, memory_order_acquire)) {
		if (++tries == OUTSIDE_TRIES)
			return;
		tek_ut__relax();
	}
	note(outside, record);
	atomic_flag_clear_explicit(&outside_taken, memory_order_release);
}

static void note_on(struct tek_worker *worker, struct tek_trace_record *record)
{
	if (!worker) {
		note_outside(record);
		return;
	}
	const struct tek_carrier *carrier = atomic_load_explicit(&worker->carrier,
								 memory_order_relaxed);
	record->tid = carrier ? (tek_u32)carrier->tid : 0;
	note(&buffers[worker->number], record);
}

/* Text of up to `size` bytes, TEK_TRACE_TEXT_BYTES at most, 8 to a record. */
static void note_text(struct tek_worker *worker, tek_u8 kind, uint64_t thread, const char *text,
		      size_t size)
{
	char padded[TEK_TRACE_TEXT_BYTES] = "";

	memcpy(padded, text, strnlen(text, size));
	for (size_t part = 0; part < sizeof(padded) / 8; part++) {
		struct tek_trace_record record = {
			.thread = thread, .kind = kind, .reason = (tek_u8)part};
		memcpy(&record.other, padded + part * 8, 8);
		/* The first part marks that there is a text; an empty later part is left out. */
		if (part == 0 || record.other)
			note_on(worker, &record);
	}
}

/* The awaited object, as a reason. */
static tek_u8 reason_of(struct tek_worker *worker, unsigned char what)
{
	if (what && !atomic_load_explicit(&is_reported[what], memory_order_relaxed) &&
	    !atomic_exchange(&is_reported[what], true))
		note_text(worker, TEK_TRACE_TEXT, what, tek_ut__waits_words[what],
			  TEK_TRACE_TEXT_BYTES - 1);
	return (tek_u8)(TEK_TRACE_WAITS + what);
}

static tek_u8 why_left(struct tek_worker *worker, const struct tek_uthread *from)
{
	switch (worker->left.leaving) {
	case TEK_LEFT_READY:
		return worker->left.why == TEK_READY_YIELDED ? TEK_TRACE_YIELDED
							     : TEK_TRACE_PREEMPTED;
	case TEK_LEFT_PARKED:
		return reason_of(worker, from->waits_for);
	case TEK_LEFT_ENDED:
		return TEK_TRACE_ENDED;
	case TEK_LEFT_NOBODY:
		break;
	}
	return from->id ? TEK_TRACE_HELD_UP : TEK_TRACE_IDLE;
}

__attribute__((noinline)) void tek_ut__trace_note_switch(struct tek_worker *worker,
							 const struct tek_uthread *from,
							 const struct tek_uthread *next)
{
	/* A carrier's own context is no thread: its id is 0. */
	struct tek_trace_record record = {.thread = from->id,
					  .other = next->id,
					  .kind = TEK_TRACE_SWITCH,
					  .reason = why_left(worker, from)};
	note_on(worker, &record);
}

void tek_ut__trace_note_ready(const struct tek_uthread *thread)
{
	const struct tek_uthread *self = tek_ut__here_self();
	struct tek_trace_record record = {
		.thread = thread->id, .other = self ? self->id : 0, .kind = TEK_TRACE_READY};
	note_on(tek_ut__here_worker(), &record);
}

void tek_ut__trace_note_name(const struct tek_uthread *thread)
{
	note_text(tek_ut__here_worker(), TEK_TRACE_NAME, thread->id, thread->name,
		  sizeof(thread->name));
}
