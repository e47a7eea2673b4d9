/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contexts [ROUNDS] - what a switch between two contexts costs: TEK's, Boost.Context's if it was
 * there when this was built, and swapcontext(3), which makes a system call.  Beside them is a bare
 * system call, by which the switches of all machines can be compared.  Each round times one batch
 * of each.  Prints one line of JSON.
 */
#include "contexts.h"

#include "../response/clock.h"
#include "../response/pin.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define DEFAULT_ROUNDS 101
#define MAX_ROUNDS 1000
#define LIMIT_S 60

static ucontext_t own, other;

static void switch_back(void)
{
	for (;;)
		swapcontext(&other, &own);
}

void switch_swapcontext(char *stack, uint64_t times)
{
	getcontext(&other);
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = CONTEXT_STACK_BYTES;
	makecontext(&other, switch_back, 0);
	for (uint64_t i = 0; i < times; i++)
		swapcontext(&own, &other);
}

/* Two each time, as the others switch there and back. */
static void make_system_calls(char *stack, uint64_t times)
{
	(void)stack;
	for (uint64_t i = 0; i < 2 * times; i++)
		syscall(SYS_gettid);
}

/* `tek bench uthread` knows the names. */
static const struct {
	const char *name;
	context_fn *run;
	uint64_t times; /* of a batch: about 1 ms */
} ways[] = {
	{"TEK", switch_tek, 200000},
#ifdef HAVE_BOOST_CONTEXT
	{"Boost.Context", switch_boost, 200000},
#endif
	{"swapcontext", switch_swapcontext, 2000},
	{"system call", make_system_calls, 2000},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static double ns_each(unsigned int way, char *stack)
{
	uint64_t begin = clock_ns();

	ways[way].run(stack, ways[way].times);
	return (double)(clock_ns() - begin) / (double)(2 * ways[way].times);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : DEFAULT_ROUNDS;
	static double ns[WAYS][MAX_ROUNDS];

	if (argc > 2 || rounds < 1 || rounds > MAX_ROUNDS)
		errx(2, "usage: contexts [ROUNDS], 1 to %d", MAX_ROUNDS);
	alarm(LIMIT_S);
	pin_to_last_cpu(NULL);
	char *stack = aligned_alloc(4096, CONTEXT_STACK_BYTES);
	if (!stack)
		err(EXIT_FAILURE, "no memory");
	for (int round = -1; round < rounds; round++) { /* once before it counts */
		for (unsigned int way = 0; way < WAYS; way++)
			ns[way][round < 0 ? 0 : round] = ns_each(way, stack);
	}
	printf("{\"contexts\":[");
	for (unsigned int way = 0; way < WAYS; way++) {
		printf("%s{\"name\":\"%s\",\"ns\":[", way ? "," : "", ways[way].name);
		for (int round = 0; round < rounds; round++)
			printf("%s%.3f", round ? "," : "", ns[way][round]);
		printf("]}");
	}
	printf("]}\n");
	free(stack);
	return EXIT_SUCCESS;
}
