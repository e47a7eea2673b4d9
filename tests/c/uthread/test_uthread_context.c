/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Contexts without the engine. tools/cross builds it for other processors, too. */
#include "uthread_raw.h"

#include <fenv.h>
#include <signal.h>
#include <unwind.h>

/* Values that the compiler does not know, and keeps in registers while other threads run. */
static volatile long opaque = 1;

static struct raw *running;

/* More than there are registers, of both kinds, over two switches. */
#define EACH_VALUE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)

static __attribute__((noinline)) bool keeps_values(long seed, int depth)
{
#define SET(n) \
	const long i##n = seed * (n + 3); \
	const double d##n = (double)seed * 0.5 + n;
#define HOLDS(n) &&i##n == seed *(n + 3) && d##n == (double)seed * 0.5 + n
	EACH_VALUE(SET)
	bool deeper = depth == 0 || keeps_values(seed + depth * opaque, depth - 1);
	raw_stop(running);
	/* Unknown to the compiler again, so it compares what it has kept. */
	__asm__ volatile("" : "+r"(seed));
	return deeper EACH_VALUE(HOLDS);
#undef SET
#undef HOLDS
}

struct keeper {
	struct raw raw;
	long seed;
	bool retained;
};

static void keep_values(void *argument)
{
	struct keeper *keeper = argument;
	keeper->retained = keeps_values(keeper->seed, 20);
}

static void values_survive_switches(void **state)
{
	(void)state;
	enum { COUNT = 7 };
	static struct keeper keepers[COUNT];
	bool some = true;

	for (int i = 0; i < COUNT; i++) {
		keepers[i] = (struct keeper){.seed = 1000 * i * opaque};
		raw_make(&keepers[i].raw, keep_values, &keepers[i]);
	}
	while (some) {
		some = false;
		for (int i = 0; i < COUNT; i++) {
			if (keepers[i].raw.ended)
				continue;
			running = &keepers[i].raw;
			raw_go_on(running);
			some = true;
		}
	}
	for (int i = 0; i < COUNT; i++) {
		assert_true(keepers[i].retained);
		raw_drop(&keepers[i].raw);
	}
}

static void note_rounding(void *argument)
{
	int *seen = argument;

	seen[0] = fegetround();
	fesetround(FE_TOWARDZERO);
	raw_stop(running);
	seen[1] = fegetround();
	volatile float one = 1, three = 3, third = one / three;
	seen[2] = third == 0x1.555554p-2f; /* to nearest it would end in 6 */
}

static void each_context_rounds_in_its_own_way(void **state)
{
	(void)state;
	struct raw raw;
	int seen[3] = {-1, -1, 0};

	fesetround(FE_UPWARD);
	raw_make(&raw, note_rounding, seen);
	running = &raw;
	fesetround(FE_DOWNWARD);
	raw_go_on(&raw);
	assert_int_equal(fegetround(), FE_DOWNWARD);
	fesetround(FE_TONEAREST);
	raw_go_on(&raw);
	assert_int_equal(fegetround(), FE_TONEAREST);
	raw_drop(&raw);
	assert_int_equal(seen[0], FE_UPWARD); /* as where it was made */
	assert_int_equal(seen[1], FE_TOWARDZERO);
	assert_true(seen[2]);
}

static void note_alignment(void *argument)
{
	_Alignas(16) volatile char aligned[16];
	char text[32];

	aligned[0] = 1;
	snprintf(text, sizeof(text), "%.2f", 0.25 * (double)opaque);
	*(bool *)argument = (uintptr_t)aligned % 16 == 0 && strcmp(text, "0.25") == 0;
}

static void the_stack_of_a_new_context_is_aligned(void **state)
{
	(void)state;
	struct raw raw;

	for (size_t off = 0; off < 32; off += 8) {
		bool good = false;
		raw_make(&raw, note_alignment, &good);
		tek__context_make(&raw.thread.context, raw.thread.stack_low + RAW_STACK_BYTES - off,
				  raw_begin, &raw);
		raw_go_on(&raw);
		raw_drop(&raw);
		assert_true(good);
	}
}

struct link {
	struct tek_context context;
	const struct tek_context *next;
	unsigned int *order;
	unsigned int number;
};

/* Its number becomes the last digit. */
static const struct tek_context *pass_on(void *argument)
{
	struct link *link = argument;

	*link->order = *link->order * 10 + link->number;
	return link->next;
}

static const struct tek_context *leave_in_between(void *argument)
{
	struct link *link = argument;

	pass_on(link);
	tek__context_go(link->next);
}

static void an_ending_thread_names_its_successor(void **state)
{
	(void)state;
	enum { COUNT = 5 };
	static _Alignas(16) char stacks[COUNT][RAW_STACK_BYTES];
	struct link links[COUNT];
	struct tek_context own;
	unsigned int order = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		links[i] = (struct link){
			.next = i + 1 < COUNT ? &links[i + 1].context : &own,
			.order = &order,
			.number = i + 1,
		};
		tek__context_make(&links[i].context, stacks[i] + RAW_STACK_BYTES,
				  i == 2 ? leave_in_between : pass_on, &links[i]);
	}
	tek__context_switch(&own, &links[0].context);
	assert_int_equal(order, 12345);
}

static struct raw *partner;

static int stop_for_partner(void)
{
	raw_stop(running);
	return 7;
}

static void stop_within_a_call(void *argument)
{
	*(bool *)argument = tek__context_call(stop_for_partner) == 7;
}

static int go_on_with_partner(void)
{
	raw_go_on(partner);
	return 8;
}

static void a_call_returns_to_its_own_caller(void **state)
{
	(void)state;
	struct raw raw;
	bool good = false;

	raw_make(&raw, stop_within_a_call, &good);
	running = partner = &raw;
	assert_int_equal(tek__context_call(go_on_with_partner), 8);
	assert_int_equal(tek__context_call(go_on_with_partner), 8);
	raw_drop(&raw);
	assert_true(good);
}

static bool is_blocked(int number)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, number) == 1;
}

static void block_signal(void *argument)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	raw_stop(running);
	*(bool *)argument = !is_blocked(SIGUSR1);
}

static void signal_masks_stay_as_they_are(void **state)
{
	(void)state;
	struct raw raw;
	sigset_t set;
	bool unblocked = false;

	raw_make(&raw, block_signal, &unblocked);
	running = &raw;
	raw_go_on(&raw);
	assert_true(is_blocked(SIGUSR1));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raw_go_on(&raw);
	raw_drop(&raw);
	assert_true(unblocked);
}

static void stop_in_handler(int number)
{
	(void)number;
	raw_stop(running);
}

static void interrupt_itself(void *argument)
{
	long sum = 0;

	for (long i = 0; i < 1000 * opaque; i++) {
		sum += i;
		if (i % 100 == 0)
			raise(SIGUSR2);
	}
	*(long *)argument = sum;
}

static void a_context_that_left_in_a_signal_handler_goes_on(void **state)
{
	(void)state;
	struct sigaction action = {.sa_handler = stop_in_handler, .sa_flags = SA_NODEFER};
	struct raw raw[3];
	long sums[3] = {0};

	sigaction(SIGUSR2, &action, NULL);
	for (int i = 0; i < 3; i++)
		raw_make(&raw[i], interrupt_itself, &sums[i]);
	for (int round = 0; round <= 10; round++) {
		for (int i = 0; i < 3; i++) {
			running = &raw[i];
			raw_go_on(&raw[i]);
		}
	}
	for (int i = 0; i < 3; i++) {
		raw_drop(&raw[i]);
		assert_int_equal(sums[i], 499500);
	}
}

struct frames {
	int count;
	bool found_begin;
};

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *argument)
{
	struct frames *frames = argument;
	uintptr_t function = _Unwind_GetRegionStart(context);

	frames->found_begin = frames->found_begin || function == (uintptr_t)raw_begin;
	return ++frames->count < 100 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void count_frames(void *argument)
{
	_Unwind_Backtrace(count_frame, argument);
	__asm__ volatile(""); /* not in place of this function */
}

static void unwinders_stop_where_a_context_began(void **state)
{
	(void)state;
	struct frames frames = {.count = 0};
	struct raw raw;

	raw_make(&raw, count_frames, &frames);
	raw_go_on(&raw);
	raw_drop(&raw);
#if defined(__x86_64__) || defined(__aarch64__)
	assert_true(frames.found_begin);
#endif
	assert_true(frames.count < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_survive_switches),
		cmocka_unit_test(each_context_rounds_in_its_own_way),
		cmocka_unit_test(the_stack_of_a_new_context_is_aligned),
		cmocka_unit_test(an_ending_thread_names_its_successor),
		cmocka_unit_test(a_call_returns_to_its_own_caller),
		cmocka_unit_test(signal_masks_stay_as_they_are),
		cmocka_unit_test(a_context_that_left_in_a_signal_handler_goes_on),
		cmocka_unit_test(unwinders_stop_where_a_context_began),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
