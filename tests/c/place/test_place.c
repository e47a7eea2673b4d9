/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads are dealt to CPUs.  Each test is a new process. */
#include "place_support.h"

#include "place/local.h"
#include "place/number.h"

#include <threads.h>

enum { THREADS = 5 };

static int deal(void)
{
	begin("");
	if (only_cpu() != (int)cpus[0])
		return 1;
	for (int i = 1; i < THREADS; i++) {
		if (reported_by(report_cpu, NULL) != (int)cpus[i % 2])
			return 1 + i;
	}
	return 0;
}

static void threads_are_dealt_to_the_cpus_round_robin(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(deal), 0);
}

static int lose_cpu(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 3;
	begin("");
	/* One that the process may not use any more. */
	tek__place_config.cpus[1] = TEK_PLACE_MOST_CPUS - 1;
	return reported_by(report_cpu, NULL) != -1 || only_cpu() != (int)cpus[0];
}

static void a_thread_whose_cpu_is_gone_is_not_left_on_the_one_of_its_creator(void **state)
{
	(void)state;
	need_two_cpus();
	if (tek__mask_has(&allowed, TEK_PLACE_MOST_CPUS - 1))
		skip();
	assert_int_equal(in_child(lose_cpu), 0);
}

static int count_cpus(void)
{
	cpu_set_t by_thread, by_pid, by_zero;
	const cpu_set_t *expected = (const cpu_set_t *)&allowed;
	char large[2 * sizeof(struct tek_mask)];

	begin("");
	if (sched_getaffinity(0, sizeof(by_zero), &by_zero) ||
	    sched_getaffinity(getpid(), sizeof(by_pid), &by_pid) ||
	    pthread_getaffinity_np(pthread_self(), sizeof(by_thread), &by_thread) ||
	    sched_getaffinity(0, sizeof(large), (cpu_set_t *)large))
		return 2;
	if (memcmp(large, &allowed, sizeof(allowed)) != 0)
		return 3;
	return !CPU_EQUAL(&by_zero, expected) || !CPU_EQUAL(&by_pid, expected) ||
	       !CPU_EQUAL(&by_thread, expected);
}

static void a_program_that_counts_cpus_finds_all_that_it_may_use(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(count_cpus), 0);
}

static int report_cpu_c11(void *unused)
{
	(void)unused;
	return only_cpu();
}

static int deal_c11(void)
{
	thrd_t thread;
	int reported;

	begin("");
	if (thrd_create(&thread, report_cpu_c11, NULL) != thrd_success ||
	    thrd_join(thread, &reported) != thrd_success)
		return 2;
	return reported != (int)cpus[1];
}

static void threads_of_c11_are_dealt_too(void **state)
{
	(void)state;
	need_two_cpus();
#ifdef __SANITIZE_THREAD__
	print_message("# ThreadSanitizer does not know thrd_join\n");
	skip();
#endif
	assert_int_equal(in_child(deal_c11), 0);
}

static int child_cpu(void)
{
	return only_cpu() == (int)cpus[1] && reported_by(report_cpu, NULL) == (int)cpus[0] ? 0 : 3;
}

static int deal_to_child(void)
{
	begin("");
	/* The child was dealt two CPUs. */
	return in_child(child_cpu) || reported_by(report_cpu, NULL) != (int)cpus[1];
}

static void the_child_of_a_fork_gets_the_next_cpu(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(deal_to_child), 0);
}

static int spawn_child(void)
{
	char script[128];

	begin("");
	/* Without TEK in it: it has the affinity of the process. */
	snprintf(script, sizeof(script),
		 "grep -q '^Cpus_allowed_list:[[:space:]]*%u$' /proc/self/status", cpus[0]);
	unsetenv("LD_PRELOAD");
	unsetenv("TEK_PLACE");
	return WEXITSTATUS(system(script)) != 1 || only_cpu() != (int)cpus[0];
}

static void what_is_spawned_may_run_everywhere(void **state)
{
	(void)state;
	need_two_cpus();
	assert_int_equal(in_child(spawn_child), 0);
}

static int nowhere(void)
{
	if (!freopen("/dev/null", "w", stderr))
		return 3;
	setenv("TEK_PLACE", "cpus=1023", 1);
	tek__place_start();
	tek__place_main();
	return tek__place_is_on() || only_cpu() != -1 || reported_by(report_cpu, NULL) != -1;
}

static void of_cpus_that_the_process_may_not_use_none_is_dealt(void **state)
{
	(void)state;
	need_two_cpus();
	if (tek__mask_has(&allowed, 1023))
		skip();
	assert_int_equal(in_child(nowhere), 0);
}

static int next_program(void)
{
	tek__number_start();
	const unsigned int first = tek__number_next(), second = tek__number_next();
	tek__number_leave(first);
	return tek__number_of_program() != first || tek__number_of_program() != second + 1;
}

static void a_program_that_takes_the_place_of_another_goes_on_with_its_number(void **state)
{
	(void)state;
	assert_int_equal(in_child(next_program), 0);
}

static void pages_on_other_nodes_are_strangers(void **state)
{
	char memory[6];
	void *pages[6];
	const int status[6] = {0, 1, -ENOENT, 2, 1, -EFAULT};

	(void)state;
	for (int i = 0; i < 6; i++)
		pages[i] = &memory[i];
	assert_int_equal(tek__local_strangers(pages, status, 6, 1), 2);
	assert_ptr_equal(pages[0], &memory[0]);
	assert_ptr_equal(pages[1], &memory[3]);
	assert_int_equal(tek__local_strangers(pages, status, 0, 1), 0);
}

static void *return_to_cpus(void *right)
{
	volatile char stack[100000];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = (char)(i / 7);
	errno = 77;
	tek__local_own_stack();
	*(bool *)right = errno == 77;
	for (size_t i = 0; i < sizeof(stack); i++)
		*(bool *)right &= stack[i] == (char)(i / 7);
	return NULL;
}

static void a_stack_that_becomes_local_is_as_it_was(void **state)
{
	pthread_t thread;
	bool right = false;

	(void)state;
	/* The second one has what the first one left. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, return_to_cpus, &right), 0);
		pthread_join(thread, NULL);
		assert_true(right);
	}
}

/* As tek writes it. */
static void write_placement(const struct tek_place_config *config, char *text, size_t size)
{
	int length = 0;

	if (config->fifo_priority)
		length = snprintf(text, size, "rtfifo=%u,", config->fifo_priority);
	length += snprintf(text + length, size - (size_t)length, "%scpus",
			   config->numa ? "numa," : "");
	for (unsigned int i = 0; i < config->count; i++)
		length += snprintf(text + length, size - (size_t)length, "%c%u", i ? ':' : '=',
				   config->cpus[i]);
}

static void check_placement(const struct vector *vector)
{
	struct tek_place_config config = {.count = 7};
	const bool option = vector_is(vector, "option");
	char text[256];

	if (vector_is(vector, "refused")) {
		vector_assert(vector, !tek__place_config_parse(&config, vector->words[1]));
		vector_assert(vector, config.count == 7);
		return;
	}
	vector_assert(vector, tek__place_config_parse(&config, vector->words[option ? 2 : 1]));
	write_placement(&config, text, sizeof(text));
	if (strcmp(text, vector->words[2]) != 0)
		vector_fail(vector, "it is %s", text);
}

static void the_variable_is_read_as_tek_does(void **state)
{
	(void)state;
	for_each_vector("placement.txt", check_placement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_dealt_to_the_cpus_round_robin),
		cmocka_unit_test(a_thread_whose_cpu_is_gone_is_not_left_on_the_one_of_its_creator),
		cmocka_unit_test(a_program_that_counts_cpus_finds_all_that_it_may_use),
		cmocka_unit_test(threads_of_c11_are_dealt_too),
		cmocka_unit_test(the_child_of_a_fork_gets_the_next_cpu),
		cmocka_unit_test(what_is_spawned_may_run_everywhere),
		cmocka_unit_test(of_cpus_that_the_process_may_not_use_none_is_dealt),
		cmocka_unit_test(a_program_that_takes_the_place_of_another_goes_on_with_its_number),
		cmocka_unit_test(pages_on_other_nodes_are_strangers),
		cmocka_unit_test(a_stack_that_becomes_local_is_as_it_was),
		cmocka_unit_test(the_variable_is_read_as_tek_does),
	};
	return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
