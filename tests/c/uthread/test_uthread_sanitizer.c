/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The reports of switches to the sanitizers, with contexts and without the engine.  Without a
 * sanitizer only the switches are tested.  A sanitizer must not end the program, and must find the
 * planted errors.
 */
#include "support.h"

#include "arch/context.h"
#include "uthread/sanitizer.h"

#include <sys/mman.h>

enum { STACK_BYTES = 256 << 10, THREADS = 5 };

/* As in the engine: threads that switch to each other, and the context of one kernel thread. */
struct fiber {
	struct tek_uthread thread;
	void (*routine)(struct fiber *);
	struct fiber *next; /* the target of its switches */
	struct fiber *last; /* the same, at its end */
	int number;
	bool ended;
};

static struct fiber own;

static void switch_to(struct fiber *from, struct fiber *to)
{
	tek_ut__fiber_switch(&from->thread, &to->thread, false);
	tek__context_switch(&from->thread.context, &to->thread.context);
	tek_ut__fiber_arrived(&from->thread);
}

TEK_FIBER_UNWATCHED static const struct tek_context *begin(void *argument)
{
	struct fiber *fiber = argument;

	tek_ut__fiber_arrived(&fiber->thread);
	fiber->routine(fiber);
	fiber->ended = true;
	struct fiber *last = fiber->last;
	tek_ut__fiber_switch(&fiber->thread, &last->thread, true);
	return &last->thread.context;
}

static void make(struct fiber *fiber, void (*routine)(struct fiber *), void *stack)
{
	*fiber = (struct fiber){.routine = routine, .next = &own, .last = &own};
	if (!stack)
		stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	assert_true(stack != MAP_FAILED);
	fiber->thread.stack_low = stack;
	fiber->thread.stack_bytes = STACK_BYTES;
	tek_ut__fiber_new(&fiber->thread, stack, STACK_BYTES);
	tek__context_make(&fiber->thread.context, (char *)stack + STACK_BYTES, begin, fiber);
}

static void drop(struct fiber *fiber)
{
	tek_ut__fiber_end(&fiber->thread);
	munmap(fiber->thread.stack_low, STACK_BYTES);
}

/* Frames that a sanitizer tracks, left by a jump past them. */
static void deep(int depth, jmp_buf *out);
static void (*volatile deeper)(int, jmp_buf *) = deep;

static void deep(int depth, jmp_buf *out)
{
	volatile char bytes[200];

	memset((char *)bytes, depth, sizeof(bytes));
	if (depth == 0)
		longjmp(*out, 1);
	deeper(depth - 1, out);
	bytes[depth] = 1;
}

static void jump_about(struct fiber *fiber)
{
	for (volatile int i = 0; i < 20; i++) {
		jmp_buf out;
		if (!setjmp(out))
			deep(10 + i % 3, &out);
		switch_to(fiber, fiber->next);
	}
}

static void threads_switch_to_each_other_and_end(void **state)
{
	(void)state;
	static struct fiber fibers[THREADS];

	for (int i = 0; i < THREADS; i++)
		make(&fibers[i], jump_about, NULL);
	for (int i = 0; i < THREADS; i++)
		fibers[i].next = fibers[i].last = i + 1 < THREADS ? &fibers[i + 1] : &own;
	for (int i = 0; i < 20; i++)
		switch_to(&own, &fibers[0]);
	/* Each ends when it goes on after its last switch, and the next one goes on. */
	switch_to(&own, &fibers[0]);
	for (int i = 0; i < THREADS; i++) {
		assert_true(fibers[i].ended);
		drop(&fibers[i]);
	}
}

/* Ends in the middle of frames. */
static void end_below(struct fiber *fiber, int depth);
static void (*volatile further_below)(struct fiber *, int) = end_below;

static void end_below(struct fiber *fiber, int depth)
{
	volatile char bytes[500];

	memset((char *)bytes, 1, sizeof(bytes));
	if (depth) {
		further_below(fiber, depth - 1);
		__asm__ volatile("" : : "r"(bytes) : "memory");
		return;
	}
	fiber->ended = true;
	tek_ut__fiber_switch(&fiber->thread, &fiber->last->thread, true);
	tek__context_go(&fiber->last->thread.context);
}

static void end_deep(struct fiber *fiber)
{
	end_below(fiber, 5 + fiber->number % 20);
}

static void a_stack_is_used_by_one_thread_after_the_other(void **state)
{
	(void)state;
	struct fiber fiber;
	void *stack = NULL;

	for (int i = 0; i < 100; i++) {
		make(&fiber, end_deep, stack);
		stack = fiber.thread.stack_low;
		fiber.number = i;
		switch_to(&own, &fiber);
		assert_true(fiber.ended);
		if (i < 99)
			tek_ut__fiber_end(&fiber.thread);
	}
	drop(&fiber);
}

/* One thread reads what the other wrote, without a lock: the switch is in between. */
static long plain;

static void count(struct fiber *fiber)
{
	for (int i = 0; i < 1000; i++) {
		plain++;
		switch_to(fiber, fiber->next);
	}
}

static void a_switch_is_an_order(void **state)
{
	(void)state;
	struct fiber one, other;

	plain = 0;
	make(&one, count, NULL);
	make(&other, count, NULL);
	one.next = &other;
	other.next = &one;
	one.last = &other;
	switch_to(&own, &one);
	assert_int_equal(plain, 2000);
	assert_true(one.ended);
	drop(&one);
	drop(&other);
}

/* A thread that another kernel thread goes on with. */
struct carried {
	struct fiber fiber, carrier;
	char *memory;
};

static void stop_once(struct fiber *fiber)
{
	struct carried *carried = (struct carried *)fiber;
	char bytes[100];

	memset(bytes, 1, sizeof(bytes));
	carried->memory = malloc(sizeof(bytes));
	switch_to(fiber, fiber->next);
	memcpy(carried->memory, bytes, sizeof(bytes));
}

static void *carry(void *argument)
{
	struct carried *carried = argument;

	tek_ut__fiber_adopt(&carried->carrier.thread);
	carried->fiber.last = &carried->carrier;
	switch_to(&carried->carrier, &carried->fiber);
	tek_ut__fiber_end(&carried->carrier.thread);
	return NULL;
}

static void a_thread_goes_on_on_another_kernel_thread(void **state)
{
	(void)state;
	static struct carried carried;
	pthread_t kernel_thread;

	make(&carried.fiber, stop_once, NULL);
	switch_to(&own, &carried.fiber);
	assert_int_equal(pthread_create(&kernel_thread, NULL, carry, &carried), 0);
	pthread_join(kernel_thread, NULL);
	assert_true(carried.fiber.ended);
	assert_int_equal(carried.memory[99], 1);
	free(carried.memory);
	drop(&carried.fiber);
}

/* Memory that only a parked thread knows is no leak; the check itself is at the program's end. */
static void keep_memory(struct fiber *fiber)
{
	/* On the stack: AddressSanitizer moves variables to memory that its leak check skips. */
	char *volatile *held = (char *volatile *)fiber->thread.stack_low;

	*held = malloc(10);
	switch_to(fiber, fiber->next);
	free(*held);
}

static void memory_that_a_parked_thread_holds_is_no_leak(void **state)
{
	(void)state;
	static struct fiber fiber;

	make(&fiber, keep_memory, NULL);
	switch_to(&own, &fiber);
	/* It stays parked. */
	assert_false(fiber.ended);
}

#ifdef TEK_FIBERS_ASAN

static __attribute__((noinline)) void write_to(volatile char *bytes, int at)
{
	bytes[at] = 1;
}

static void overrun(struct fiber *fiber)
{
	char bytes[16];

	switch_to(fiber, fiber->next);
	write_to(bytes, 16 + fiber->number);
}

static int overrun_in_child(void)
{
	struct fiber fiber;

	close(STDERR_FILENO);
	make(&fiber, overrun, NULL);
	switch_to(&own, &fiber);
	switch_to(&own, &fiber);
	return 0;
}

static void an_overrun_in_a_thread_is_found(void **state)
{
	(void)state;
	assert_int_not_equal(in_child(overrun_in_child), 0);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_switch_to_each_other_and_end),
		cmocka_unit_test(a_stack_is_used_by_one_thread_after_the_other),
		cmocka_unit_test(a_switch_is_an_order),
		cmocka_unit_test(a_thread_goes_on_on_another_kernel_thread),
		cmocka_unit_test(memory_that_a_parked_thread_holds_is_no_leak),
#ifdef TEK_FIBERS_ASAN
		cmocka_unit_test(an_overrun_in_a_thread_is_found),
#endif
	};

	tek_ut__fiber_adopt(&own.thread);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
