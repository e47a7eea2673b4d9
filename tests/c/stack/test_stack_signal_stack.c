/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The alternate signal stacks of fitted threads. */
#include "overflow_support.h"
#include "rounds.h"

#include "stack/signal_stack.h"

#include <malloc.h>
#include <sys/auxv.h>
#include <sys/mman.h>

enum { HANDLER_FRAME = 20 << 10 }; /* for example of a crash reporter that formats text */

__attribute__((noinline)) static void use_stack(size_t bytes)
{
	volatile char *frame = alloca(bytes);

	for (size_t i = bytes; i-- > 0;)
		frame[i] = 1;
}

static void use_much(int number)
{
	(void)number;
	use_stack(HANDLER_FRAME);
	was_on_alternate_stack = is_on_alternate_stack();
	calls++;
}

static void *signal_self(void *unused)
{
	(void)unused;
	fit_self(0);
	pthread_kill(pthread_self(), SIGUSR1);
	return NULL;
}

static int handle_on_signal_stack(void)
{
	struct sigaction action = {.sa_handler = use_much, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	join(start_with_stack(STACK_BYTES, signal_self, NULL));
	return calls == 1 && was_on_alternate_stack ? 0 : 1;
}

static int handle_on_signal_stack_with_few_addresses(void)
{
	setrlimit(RLIMIT_AS, &(struct rlimit){1 << 30, 1 << 30});
	return handle_on_signal_stack();
}

static void a_handler_of_another_signal_has_room_for_large_frames(void **state)
{
	(void)state;
	run_child(&ended, handle_on_signal_stack);
	assert_exited(&ended, 0);
	run_child(&ended, handle_on_signal_stack_with_few_addresses);
	assert_exited(&ended, 0);
}

static void recurse_for_ever(int number)
{
	(void)number;
	recurse(ENDLESS);
}

static int handler_overflows_signal_stack(void)
{
	struct sigaction action = {.sa_handler = recurse_for_ever, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	return join(start_with_stack(STACK_BYTES, signal_self, NULL));
}

static void a_handler_that_overflows_the_signal_stack_is_not_the_thread_s_overflow(void **state)
{
	(void)state;
	run_child(&ended, handler_overflows_signal_stack);
	assert_killed_by(&ended, SIGSEGV);
	assert_int_equal(ended.events, 0);
}

static void *keep_signal_stack(void *barriers)
{
	pthread_barrier_t *barrier = barriers;
	fit_self(0);
	if (!is_on_alternate_stack() && tek__thread_known_self()->stack.signal_stack)
		pthread_barrier_wait(&barrier[0]);
	pthread_barrier_wait(&barrier[1]);
	return NULL;
}

static unsigned int mappings(void)
{
	char line[512];
	unsigned int count = 0;
	FILE *file = fopen("/proc/self/maps", "re");
	while (file && fgets(line, sizeof(line), file))
		count++;
	fclose(file);
	return count;
}

static size_t status_kib(const char *field)
{
	char line[256];
	size_t kib = 0;
	FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, field, strlen(field)) == 0)
			sscanf(line, "%*[^:]: %zu", &kib);
	fclose(file);
	return kib;
}

static size_t virtual_kib(void)
{
	return status_kib("VmSize");
}

enum { MANY = 2000 };

static int many_signal_stacks(void)
{
	static pthread_t threads[MANY];
	static pthread_barrier_t barriers[2];

	mallopt(M_ARENA_MAX, 1); /* its arenas, eight a CPU, take two mappings each */
	pthread_barrier_init(&barriers[0], NULL, MANY + 1);
	pthread_barrier_init(&barriers[1], NULL, MANY + 1);
	for (int i = 0; i < MANY; i++)
		threads[i] = start_with_stack(64 << 10, keep_signal_stack, barriers);
	pthread_barrier_wait(&barriers[0]);
	/* At most two for each stack that the C library made. */
	unsigned int used = mappings();
	if (tek__signal_stack_count() != MANY)
		return 1;
	pthread_barrier_wait(&barriers[1]);
	for (int i = 0; i < MANY; i++)
		pthread_join(threads[i], NULL);
	return used < 2 * MANY + 300 ? 0 : 2;
}

static void thousands_of_signal_stacks_take_few_mappings(void **state)
{
	char page[4096] __attribute__((aligned(4096)));

	(void)state;
	(void)page;
	need_threads(MANY);
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool light = madvise(map, 4096, 102 /* MADV_GUARD_INSTALL */) == 0;
	munmap(map, 4096);
	if (!light) {
		print_message("# needs Linux 6.13\n");
		skip();
	}
	run_child(&ended, many_signal_stacks);
	assert_exited(&ended, 0);
}

static int churn(void)
{
	for (int i = 0, end = rounds(20000); i < end; i++)
		join(start_with_stack(64 << 10, only_fit, NULL));
	return tek__signal_stack_count() <= 4 ? 0 : 1;
}

/* Each with another size, so that the C library's cache is of no use. */
static int churn_through_places(void)
{
	for (int i = 0, end = rounds(3000); i < end; i++)
		join(start_with_stack((size_t)(1 + i % 50) << 20, only_fit, NULL));
	return tek__signal_stack_count() <= 100 ? 0 : 1;
}

/* The least guard below a stack in the C library: for aarch64 as far as compilers let code jump. */
#ifdef __aarch64__
#define GUARD_KIB 64
#else
#define GUARD_KIB 4
#endif

static int fill_few_addresses(void)
{
	static pthread_t threads[MANY];
	static pthread_barrier_t barriers[2];
	const int wanted = rounds(10 * MANY) < MANY ? rounds(10 * MANY) : MANY;
	const int many = wanted < most_threads() ? wanted : most_threads();
	const size_t stack_kib = stack_bytes(64 << 10) >> 10;
	struct rlimit limit = {1 << 30, 1 << 30};

	mallopt(M_ARENA_MAX, 1); /* that of each thread would take more */
	pthread_barrier_init(&barriers[0], NULL, many + 1);
	pthread_barrier_init(&barriers[1], NULL, many + 1);
	setrlimit(RLIMIT_AS, &limit);
	size_t before = virtual_kib();
	for (int i = 0; i < many; i++)
		threads[i] = start_with_stack(64 << 10, keep_signal_stack, barriers);
	pthread_barrier_wait(&barriers[0]);
	size_t kib = virtual_kib() - before;
	pthread_barrier_wait(&barriers[1]);
	for (int i = 0; i < many; i++)
		pthread_join(threads[i], NULL);
	/* Stack, guard, 16 KiB, more where the frame of a signal is large; a 64th of the addresses;
	   the table. */
	size_t frame_kib = getauxval(AT_MINSIGSTKSZ) >> 10;
	size_t each_kib = stack_kib + GUARD_KIB + 16 + (frame_kib > 4 ? frame_kib : 0);
	return kib < (size_t)many * each_kib + (16 << 10) + (8 << 10) ? 0 : 1;
}

static void signal_stacks_are_small_where_addresses_are_few(void **state)
{
	(void)state;
	run_child(&ended, fill_few_addresses);
	assert_exited(&ended, 0);
}

enum { LOCKED = 300 };

static int lock_signal_stacks(void)
{
	static pthread_t threads[LOCKED];
	static pthread_barrier_t barriers[2];

	mallopt(M_ARENA_MAX, 1); /* that of each thread would take more */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 77;
	pthread_barrier_init(&barriers[0], NULL, LOCKED + 1);
	pthread_barrier_init(&barriers[1], NULL, LOCKED + 1);
	struct sigaction action = {.sa_handler = use_much, .sa_flags = SA_ONSTACK};
	sigaction(SIGUSR1, &action, NULL);
	join(start_with_stack(64 << 10, signal_self, NULL));
	size_t before = status_kib("VmLck");
	for (int i = 0; i < LOCKED; i++)
		threads[i] = start_with_stack(64 << 10, keep_signal_stack, barriers);
	pthread_barrier_wait(&barriers[0]);
	size_t kib = status_kib("VmLck") - before;
	pthread_barrier_wait(&barriers[1]);
	for (int i = 0; i < LOCKED; i++)
		pthread_join(threads[i], NULL);
	print_message("# %zu KiB locked for %d threads\n", kib, LOCKED);
	if (calls != 1)
		return 1;
	/* Stack and guard, 12 KiB of the signal stack; where frames are large, more. */
	return kib < LOCKED * ((stack_bytes(64 << 10) >> 10) + GUARD_KIB + 16 + 16) ? 0 : 2;
}

static void of_signal_stacks_only_a_part_is_locked_with_the_program_s_memory(void **state)
{
	(void)state;
	run_child(&ended, lock_signal_stacks);
	if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 77) {
		print_message("# needs CAP_IPC_LOCK\n");
		skip();
	}
	assert_exited(&ended, 0);
}

static void signal_stacks_are_used_again(void **state)
{
	(void)state;
	run_child(&ended, churn);
	assert_exited(&ended, 0);
	run_child(&ended, churn_through_places);
	assert_exited(&ended, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handler_of_another_signal_has_room_for_large_frames),
		cmocka_unit_test(
			a_handler_that_overflows_the_signal_stack_is_not_the_thread_s_overflow),
		cmocka_unit_test(thousands_of_signal_stacks_take_few_mappings),
		cmocka_unit_test(signal_stacks_are_small_where_addresses_are_few),
		cmocka_unit_test(of_signal_stacks_only_a_part_is_locked_with_the_program_s_memory),
		cmocka_unit_test(signal_stacks_are_used_again),
	};
	return cmocka_run_group_tests_name("stack_signal_stack", tests, NULL, NULL);
}
