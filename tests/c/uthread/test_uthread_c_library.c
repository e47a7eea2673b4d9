/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Probes of the C library's internal layout (docs/design/c-library.md), compared with objects and
 * threads of the running C library.
 */
#include "support.h"

#include "base/definition.h"
#include "base/next.h"
#include "uthread/posix/objects.h"
#include "uthread/reserved.h"
#include "uthread/spinlock.h"
#include "uthread/tls.h"
#include "uthread/tls_glibc.h"

#include <linux/futex.h>
#include <netdb.h>
#include <resolv.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <time.h>

static void conds_have_a_flag_if_they_are_of_several_processes(void **state)
{
	pthread_condattr_t attributes;
	pthread_cond_t shared, usual = PTHREAD_COND_INITIALIZER;

	(void)state;
	assert_true(tek_ut__objects()->cond_shared.bit);
	pthread_condattr_init(&attributes);
	pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	memset(&shared, 0xff, sizeof(shared));
	assert_int_equal(pthread_cond_init(&shared, &attributes), 0);
	assert_true(tek__flag_is_set(&shared, tek_ut__objects()->cond_shared));
	assert_false(tek__flag_is_set(&usual, tek_ut__objects()->cond_shared));
	memset(&usual, 0xff, sizeof(usual));
	assert_int_equal(pthread_cond_init(&usual, NULL), 0);
	assert_false(tek__flag_is_set(&usual, tek_ut__objects()->cond_shared));
}

/* Of the C library, in no header: allocates a real-time signal that no other caller gets. */
int __libc_allocate_rtsig(int high);

struct waiting {
	pthread_cond_t cond;
	pthread_mutex_t mutex;
	bool waits, reported;
};

static void *wait_for_cond(void *argument)
{
	struct waiting *waiting = argument;

	pthread_mutex_lock(&waiting->mutex);
	waiting->waits = true;
	while (!waiting->reported)
		pthread_cond_wait(&waiting->cond, &waiting->mutex);
	pthread_mutex_unlock(&waiting->mutex);
	return NULL;
}

static void the_flag_of_a_cond_stays_while_threads_wait(void **state)
{
	struct waiting *waiting = mmap(NULL, sizeof(*waiting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_condattr_t attributes;
	pthread_t threads[3];

	(void)state;
	assert_true(waiting != MAP_FAILED);
	pthread_condattr_init(&attributes);
	pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&waiting->mutex, NULL);
	pthread_cond_init(&waiting->cond, &attributes);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, wait_for_cond, waiting);
	for (bool all = false; !all; sleep_ms(1)) {
		pthread_mutex_lock(&waiting->mutex);
		all = waiting->waits;
		assert_true(tek__flag_is_set(&waiting->cond, tek_ut__objects()->cond_shared));
		pthread_mutex_unlock(&waiting->mutex);
	}
	pthread_mutex_lock(&waiting->mutex);
	waiting->reported = true;
	pthread_mutex_unlock(&waiting->mutex);
	pthread_cond_broadcast(&waiting->cond);
	assert_true(tek__flag_is_set(&waiting->cond, tek_ut__objects()->cond_shared));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	munmap(waiting, sizeof(*waiting));
}

static void conds_have_a_flag_if_their_times_are_monotonic(void **state)
{
	pthread_condattr_t attributes;
	pthread_cond_t cond;

	(void)state;
	pthread_condattr_init(&attributes);
	for (int shared = 0; shared < 2; shared++) {
		pthread_condattr_setpshared(&attributes, shared);
		for (int monotonic = 0; monotonic < 2; monotonic++) {
			pthread_condattr_setclock(&attributes,
						  monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME);
			pthread_cond_init(&cond, &attributes);
			assert_int_equal(tek__flag_is_set(&cond, tek_ut__objects()->cond_monotonic),
					 monotonic);
			assert_int_equal(tek__flag_is_set(&cond, tek_ut__objects()->cond_shared),
					 shared);
		}
	}
}

static void
rwlocks_barriers_and_semaphores_have_a_flag_if_they_are_of_several_processes(void **state)
{
	pthread_rwlockattr_t of_lock;
	pthread_rwlock_t lock;
	pthread_barrierattr_t of_barrier;
	pthread_barrier_t barrier;
	sem_t semaphore;

	(void)state;
	pthread_rwlockattr_init(&of_lock);
	pthread_barrierattr_init(&of_barrier);
	for (int shared = 0; shared < 2; shared++) {
		pthread_rwlockattr_setpshared(&of_lock, shared);
		pthread_barrierattr_setpshared(&of_barrier, shared);
		assert_int_equal(pthread_rwlock_init(&lock, &of_lock), 0);
		pthread_rwlock_rdlock(&lock);
		assert_int_equal(tek__flag_is_set(&lock, tek_ut__objects()->rwlock_shared), shared);
		assert_int_equal(pthread_barrier_init(&barrier, &of_barrier, 1000), 0);
		assert_int_equal(tek__flag_is_set(&barrier, tek_ut__objects()->barrier_shared),
				 shared);
		assert_int_equal(sem_init(&semaphore, shared, 5), 0);
		assert_int_equal(tek__flag_is_set(&semaphore, tek_ut__objects()->semaphore_shared),
				 shared);
	}
	assert_true(tek_ut__objects()->rwlock_shared.bit && tek_ut__objects()->barrier_shared.bit &&
		    tek_ut__objects()->semaphore_shared.bit);
}

static void values_of_static_initialisers_are_where_the_headers_have_them(void **state)
{
	(void)state;
	assert_true(tek_ut__objects()->mutexes);
	assert_true(tek_ut__objects()->rwlocks);
	assert_true(tek_ut__objects()->once);
	assert_int_equal(tek_ut__objects()->spinlock_free, TEK_SPINLOCK_FREE);
	assert_int_equal(tek_ut__objects()->spinlock_locked, TEK_SPINLOCK_HELD);
}

/* The linker has bound this program to the default version of each. */
static void of_a_function_with_several_versions_the_default_one_is_found(void **state)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{"pthread_cond_wait", (void *)pthread_cond_wait},
		{"pthread_cond_signal", (void *)pthread_cond_signal},
		{"pthread_cond_init", (void *)pthread_cond_init},
		{"pthread_getaffinity_np", (void *)pthread_getaffinity_np},
		{"pthread_kill", (void *)pthread_kill},
		{"posix_spawn", (void *)posix_spawn},
		{"sched_getaffinity", (void *)sched_getaffinity},
		{"sched_setaffinity", (void *)sched_setaffinity},
		{"timer_create", (void *)timer_create},
		{"pthread_create", (void *)pthread_create},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		assert_ptr_equal(tek__next_definition(functions[i].name), functions[i].function);
		assert_ptr_equal(tek__c_library_function(functions[i].name), functions[i].function);
	}
	assert_null(tek__c_library_function("no_such_function"));
	assert_null(tek__next_definition("no_such_function"));
}

static void a_program_cannot_use_reserved_signals(void **state)
{
	struct sigaction action;

	(void)state;
	for (int number = 1; number <= 64; number++) {
		const bool reserved = tek_ut__reserved_signals() >> (number - 1) & 1;
		assert_int_equal(sigaction(number, NULL, &action) != 0, reserved);
	}
	assert_true(tek_ut__reserved_signals() & TEK_TICK_BIT);
	/* A signal that the program allocates is not one that the C library reserves. */
	const uint64_t before = tek_ut__reserved_signals();
	__libc_allocate_rtsig(1);
	assert_int_equal(tek_ut__reserved_signals(), before);
}

static void need_storage(void)
{
	if (tek_ut__tls_available())
		return;
	print_message("# threads have no storage of their own here\n");
	skip();
}

/* The contents of the C library's structure of a kernel thread, as that thread sees it. */
struct seen {
	void *stack; /* given by the creator, or NULL */
	size_t stack_bytes;
	bool given, tid, keys, robust, error, resolver;
	int cpu, cpu_noted;
};

static pthread_key_t key;

static void *examine(void *argument)
{
	const uintptr_t pointer = tek_ut__tls_pointer();
	const char *structure = tek_ut__tls_structure(pointer);
	struct robust_list_head *head;
	struct seen *seen = argument;
	cpu_set_t one;
	size_t size;
	pid_t tid;
	uintptr_t word;

	memcpy(&tid, structure + tek_ut__glibc.tid, sizeof(tid));
	seen->tid = tid == own_tid();
	memcpy(&word, structure + tek_ut__glibc.keys, sizeof(word));
	seen->keys = word == (uintptr_t)structure + tek_ut__glibc.first_keys;
	/* The C library's entry for a key: a sequence number and the value. */
	pthread_setspecific(key, seen);
	memcpy(&word, (const char *)word + (2 * key + 1) * sizeof(word), sizeof(word));
	seen->keys = seen->keys && word == (uintptr_t)seen;
	syscall(SYS_get_robust_list, 0, &head, &size);
	seen->robust = (char *)head == structure + tek_ut__glibc.robust &&
		       head->futex_offset == tek_ut__glibc.robust_futex;
	seen->error = (char *)&errno == (char *)pointer + tek_ut__glibc.error &&
		      (char *)&h_errno == (char *)pointer + tek_ut__glibc.host_error;
	memcpy(&word, (char *)pointer + tek_ut__glibc.resolver, sizeof(word));
	seen->resolver = word == (uintptr_t)__res_state();
	seen->given = structure[tek_ut__glibc.given_stack] == 1;
	memcpy(&seen->stack_bytes, structure + tek_ut__glibc.stack_bytes,
	       sizeof(seen->stack_bytes));
	/* The kernel writes the number of the CPU into the rseq area, if one is registered. */
	CPU_ZERO(&one);
	CPU_SET(seen->cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	memcpy(&seen->cpu_noted, (char *)pointer + tek_ut__glibc.rseq + 4, sizeof(seen->cpu_noted));
	return NULL;
}

static int last_cpu(void)
{
	cpu_set_t all;
	int last = 0;

	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all))
			last = i;
	return last;
}

static struct seen examine_in_a_thread(void *stack, size_t bytes)
{
	struct seen seen = {.stack = stack, .cpu = last_cpu()};
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstack(&attributes, stack, bytes);
	else
		pthread_attr_setstacksize(&attributes, bytes);
	assert_int_equal(pthread_create(&thread, &attributes, examine, &seen), 0);
	pthread_join(thread, NULL);
	return seen;
}

enum { STACK_BYTES = 512 << 10 };

static void the_parts_of_the_structure_of_a_thread_are_where_they_were_found(void **state)
{
	(void)state;
	need_storage();
	pthread_key_create(&key, NULL);
	const struct seen seen = examine_in_a_thread(NULL, STACK_BYTES);
	assert_true(seen.tid);
	assert_true(seen.keys);
	assert_true(seen.error);
	assert_true(seen.resolver);
	assert_true(tek_ut__glibc.robust && seen.robust);
	pthread_key_delete(key);
}

static void the_structure_has_the_owner_and_the_size_of_the_stack(void **state)
{
	static char stack[STACK_BYTES] __attribute__((aligned(4096)));

	(void)state;
	need_storage();
	assert_true(tek_ut__glibc.given_stack && tek_ut__glibc.stack_bytes);
	struct seen seen = examine_in_a_thread(NULL, STACK_BYTES);
	assert_false(seen.given);
	assert_true(seen.stack_bytes >= STACK_BYTES && seen.stack_bytes < 4 * STACK_BYTES);
	seen = examine_in_a_thread(stack, sizeof(stack));
	assert_true(seen.given);
	assert_int_equal(seen.stack_bytes, sizeof(stack));
}

static void the_kernel_notes_its_cpu_where_the_area_was_found(void **state)
{
	(void)state;
	need_storage();
	if (!tek_ut__glibc.rseq_bytes) {
		print_message("# the C library has registered no rseq(2) area\n");
		skip();
	}
	const struct seen seen = examine_in_a_thread(NULL, STACK_BYTES);
	assert_int_equal(seen.cpu_noted, seen.cpu);
}

/* The loader makes the engine's storage, and may set the rseq area to zero, too. */
static void storage_of_the_engine_marks_its_cpu_as_not_known(void **state)
{
	struct tek_uthread thread = {.stack_low = NULL};
	int cpu;

	(void)state;
	need_storage();
	if (!tek_ut__glibc.rseq_bytes)
		skip();
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tek_ut__tls_give(&thread), 0);
		memcpy(&cpu, (char *)thread.tls + tek_ut__glibc.rseq + 4, sizeof(cpu));
		assert_int_equal(cpu, -2);
	}
}

#if defined(__x86_64__)
/* The stack protector's canary and the pointer guard are the same in all threads of a process. */
static void *copy_secrets(void *argument)
{
	memcpy(argument, (const char *)tek_ut__tls_pointer() + 40, 16);
	return NULL;
}

static void the_secrets_in_the_head_of_the_structure_are_the_processs(void **state)
{
	uintptr_t mine[2], its[2];
	pthread_t thread;

	(void)state;
	copy_secrets(mine);
	pthread_create(&thread, NULL, copy_secrets, its);
	pthread_join(thread, NULL);
	assert_memory_equal(mine, its, sizeof(mine));
	assert_true(mine[0] != 0 && mine[1] != 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] =
	{ cmocka_unit_test(conds_have_a_flag_if_they_are_of_several_processes),
	  cmocka_unit_test(the_flag_of_a_cond_stays_while_threads_wait),
	  cmocka_unit_test(conds_have_a_flag_if_their_times_are_monotonic),
	  cmocka_unit_test(
		  rwlocks_barriers_and_semaphores_have_a_flag_if_they_are_of_several_processes),
	  cmocka_unit_test(values_of_static_initialisers_are_where_the_headers_have_them),
	  cmocka_unit_test(of_a_function_with_several_versions_the_default_one_is_found),
	  cmocka_unit_test(a_program_cannot_use_reserved_signals),
	  cmocka_unit_test(the_parts_of_the_structure_of_a_thread_are_where_they_were_found),
	  cmocka_unit_test(the_structure_has_the_owner_and_the_size_of_the_stack),
	  cmocka_unit_test(the_kernel_notes_its_cpu_where_the_area_was_found),
	  cmocka_unit_test(storage_of_the_engine_marks_its_cpu_as_not_known),
#if defined(__x86_64__)
	  cmocka_unit_test(the_secrets_in_the_head_of_the_structure_are_the_processs),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
