/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Thread-local storage of their own: contexts and blocks, without the engine. */
#include "patience.h"
#include "uthread_raw.h"

#include "uthread/setxid.h"
#include "uthread/tls_libraries.h"
#include "uthread/worker.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <sched.h>
#include <search.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_VALUE = 42, THREADS = 40, ROUNDS = 200 };

static __thread int with_value = FIRST_VALUE;
static __thread char zeros[5000];

/* qemu-user has no CPUs of its own; a child of a program with threads can make no threads there. */
static void need_a_kernel(void)
{
	if (!getenv("TEK_EMULATED"))
		return;
	print_message("# needs a kernel, and not qemu-user\n");
	skip();
}

static bool is_new(void)
{
	bool new = with_value == FIRST_VALUE;

	for (size_t i = 0; i < sizeof(zeros); i++)
		new = new && !zeros[i];
	return new &&errno == 0 && h_errno == 0 && uselocale((locale_t)0) == LC_GLOBAL_LOCALE &&
	       !dlerror();
}

static void leave_traces(void)
{
	with_value = 1;
	memset(zeros, 1, sizeof(zeros));
	errno = EXDEV;
	h_errno = TRY_AGAIN;
	dlopen("/does/not/exist", RTLD_NOW);
	uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static void note_whether_new(void *argument)
{
	*(bool *)argument = is_new();
	leave_traces();
}

static void a_new_thread_finds_first_values_in_storage_that_was_used(void **state)
{
	(void)state;
	leave_traces();
	for (int i = 0; i < ROUNDS; i++) {
		bool new = false;
		raw_run_with_tls(note_whether_new, &new);
		assert_true(new);
	}
	assert_int_equal(with_value, 1);
	assert_int_equal(errno, EXDEV);
	uselocale(LC_GLOBAL_LOCALE);
}

struct own {
	struct raw raw;
	int number;
	bool retained;
};

static void keep_own_values(void *argument)
{
	struct own *own = argument;

	for (int i = 0; i < ROUNDS; i++) {
		errno = with_value = own->number + i;
		zeros[own->number] = 1;
		raw_stop(&own->raw);
		if (errno != own->number + i || with_value != own->number + i ||
		    !zeros[own->number])
			return;
		for (int other = 0; other < THREADS; other++)
			if (other != own->number && zeros[other])
				return;
	}
	own->retained = true;
}

static void each_thread_keeps_values_of_its_own(void **state)
{
	(void)state;
	static struct own threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct own){.number = i};
		raw_make_with_tls(&threads[i].raw, keep_own_values, &threads[i]);
	}
	for (int round = 0; round <= ROUNDS; round++)
		for (int i = 0; i < THREADS; i++)
			raw_go_on(&threads[i].raw);
	for (int i = 0; i < THREADS; i++) {
		assert_true(threads[i].retained);
		raw_drop(&threads[i].raw);
	}
}

/* Each thread frees blocks of other threads, in sizes with and without caches. */
struct exchange {
	struct raw raw;
	unsigned int seed;
};

static char *exchanged[256];

static void exchange_memory(void *argument)
{
	struct exchange *exchange = argument;

	for (int i = 0; i < 5 * ROUNDS; i++) {
		size_t at = (size_t)rand_r(&exchange->seed) % 256;
		size_t bytes = (size_t)rand_r(&exchange->seed) % (i % 10 ? 2000 : 300000) + 1;
		free(exchanged[at]);
		exchanged[at] = malloc(bytes);
		exchanged[at][bytes - 1] = 1;
		if (i % 7 == 0)
			raw_stop(&exchange->raw);
	}
}

static void memory_goes_from_thread_to_thread(void **state)
{
	(void)state;
	static struct exchange threads[THREADS];

	for (int life = 0; life < 5; life++) {
		for (int i = 0; i < THREADS; i++) {
			threads[i] = (struct exchange){.seed = (unsigned int)(life * THREADS + i)};
			raw_make_with_tls(&threads[i].raw, exchange_memory, &threads[i]);
		}
		for (bool some = true; some;) {
			some = false;
			for (int i = 0; i < THREADS; i++)
				if (!threads[i].raw.ended) {
					raw_go_on(&threads[i].raw);
					some = true;
				}
		}
		for (int i = 0; i < THREADS; i++)
			raw_drop(&threads[i].raw);
	}
	for (size_t i = 0; i < 256; i++) {
		free(exchanged[i]);
		exchanged[i] = NULL;
	}
}

static void half_then_stop(void *argument)
{
	struct own *own = argument;

	errno = with_value = 5;
	raw_stop(&own->raw);
	own->retained = errno == 5 && with_value == 5 && isalpha('a');
	free(malloc(100));
}

static void *go_on_elsewhere(void *argument)
{
	struct own *own = argument;
	struct tek_uthread context = {.tls = 0};

	tek_ut__tls_adopt(&context);
	errno = with_value = 6;
	raw_go_on(&own->raw);
	return (void *)(intptr_t)(errno == 6 && with_value == 6);
}

static void a_thread_goes_on_with_its_values_on_another_kernel_thread(void **state)
{
	(void)state;
	struct own own = {.number = 0};
	pthread_t kernel_thread;
	void *retained;

	raw_make_with_tls(&own.raw, half_then_stop, &own);
	raw_go_on(&own.raw);
	assert_int_equal(pthread_create(&kernel_thread, NULL, go_on_elsewhere, &own), 0);
	assert_int_equal(pthread_join(kernel_thread, &retained), 0);
	assert_true(retained);
	assert_true(own.retained);
	raw_drop(&own.raw);
}

/* C++ compilers call it for the destructor of a thread_local object. */
extern void *__dso_handle __attribute__((visibility("hidden")));
int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *library);

static void count_one(void *argument)
{
	++*(int *)argument;
}

static void have_thread_local_object(void *argument)
{
	__cxa_thread_atexit_impl(count_one, argument, &__dso_handle);
}

static void thread_local_objects_are_destroyed_once(void **state)
{
	(void)state;
	int destroyed = 0;

	for (int i = 1; i <= 10; i++) {
		raw_run_with_tls(have_thread_local_object, &destroyed);
		assert_int_equal(destroyed, i);
	}
}

/* A library, and its functions. */
struct library {
	struct raw raw;
	void *handle;
	int *(*with_value)(void), *(*zero)(void), *(*set_by_constructor)(void);
	bool good;
};

/* `name`: of a library that lies beside this program. */
static bool load(struct library *library, const char *name)
{
	char path[PATH_MAX] = {0};

	if (readlink("/proc/self/exe", path, sizeof(path) - NAME_MAX - 1) < 0)
		return false;
	strcpy(strrchr(path, '/') + 1, name);
	library->handle = dlopen(path, RTLD_NOW);
	if (!library->handle) {
		print_message("# %s\n", dlerror());
		return false;
	}
	library->with_value = (int *(*)(void))dlsym(library->handle, "tls_with_value");
	library->zero = (int *(*)(void))dlsym(library->handle, "tls_zero");
	library->set_by_constructor = (int *(*)(void))dlsym(library->handle,
							    "tls_set_by_constructor");
	tek_ut__tls_libraries_changed();
	return true;
}

static bool finds_first_values(const struct library *library, int by_constructor)
{
	return *library->with_value() == 42 && *library->zero() == 0 &&
	       *library->set_by_constructor() == by_constructor;
}

static void use_library(void *argument)
{
	struct library *library = argument;

	library->good = finds_first_values(library, 0);
	*library->with_value() = *library->zero() = *library->set_by_constructor() = 1;
}

static void load_then_use_library(void *argument)
{
	struct library *library = argument;

	raw_stop(&library->raw);
	library->good = load(library, "libuthread-in-block.so") && finds_first_values(library, 7);
}

static void wait_then_use_library(void *argument)
{
	struct library *library = argument;

	raw_stop(&library->raw);
	use_library(library);
}

static void a_library_loaded_later_has_first_values_in_each_thread(void **state)
{
	(void)state;
	struct library library, before;

	raw_make_with_tls(&before.raw, wait_then_use_library, &before);
	raw_go_on(&before.raw);
	assert_true(load(&library, "libuthread-elsewhere.so"));
	for (int i = 0; i < 10; i++) {
		raw_run_with_tls(use_library, &library);
		assert_true(library.good);
	}
	struct raw raw = before.raw;
	before = library;
	before.raw = raw;
	raw_go_on(&before.raw);
	assert_true(before.good);
	raw_drop(&before.raw);
	assert_true(finds_first_values(&library, 7));
	dlclose(library.handle);
	tek_ut__tls_libraries_changed();
	raw_run_with_tls(note_whether_new, &library.good);
	assert_true(library.good);
}

static void
a_library_with_variables_in_the_block_finds_them_in_threads_that_were_there(void **state)
{
	(void)state;
	struct library loader, before;

	raw_make_with_tls(&before.raw, wait_then_use_library, &before);
	raw_go_on(&before.raw);
	raw_make_with_tls(&loader.raw, load_then_use_library, &loader);
	raw_go_on(&loader.raw);
	raw_go_on(&loader.raw);
	assert_true(loader.good);
	raw_drop(&loader.raw);
	before.with_value = loader.with_value;
	before.zero = loader.zero;
	before.set_by_constructor = loader.set_by_constructor;
	raw_go_on(&before.raw);
	assert_true(before.good);
	raw_drop(&before.raw);
	for (int i = 0; i < 10; i++) {
		raw_run_with_tls(use_library, &loader);
		assert_true(loader.good);
	}
}

static void change_user(void *argument)
{
	*(bool *)argument = setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1) == 0;
}

static void *wait_at(void *barrier)
{
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return NULL;
}

static void setuid_returns_in_a_thread_with_storage_of_its_own(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	pthread_t kernel_thread;
	bool changed = false;

	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&kernel_thread, NULL, wait_at, &barrier), 0);
	pthread_barrier_wait(&barrier);
	tek_ut__setxid_start();
	limit_to(20);
	raw_run_with_tls(change_user, &changed);
	alarm(0);
	assert_true(changed);
	pthread_barrier_wait(&barrier);
	pthread_join(kernel_thread, NULL);
}

static void *do_nothing(void *argument)
{
	return argument;
}

static int grandchild(void)
{
	pthread_t kernel_thread;

	if (pthread_create(&kernel_thread, NULL, do_nothing, NULL) ||
	    pthread_join(kernel_thread, NULL))
		return 1;
	return 0;
}

static int child(void)
{
	int status;

	tek_ut__tls_after_fork();
	if (grandchild() || setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1))
		return 1;
	bool new = false;
	raw_run_with_tls(note_whether_new, &new);
	if (!new)
		return 2;
	pid_t pid = fork();
	if (pid == 0)
		_exit(grandchild());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static void fork_in_thread(void *argument)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(child());
	*(int *)argument = waitpid(pid, &status, 0) == pid && WIFEXITED(status)
				   ? WEXITSTATUS(status)
				   : -1;
}

static void a_child_of_fork_goes_on_in_the_storage_of_the_thread_that_forked(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	pthread_t kernel_thread;
	int result = -1;

	need_a_kernel();
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&kernel_thread, NULL, wait_at, &barrier), 0);
	pthread_barrier_wait(&barrier);
	raw_run_with_tls(fork_in_thread, &result);
	assert_int_equal(result, 0);
	pthread_barrier_wait(&barrier);
	pthread_join(kernel_thread, NULL);
}

static void note_cpu(void *argument)
{
	*(int *)argument = sched_getcpu();
}

static void sched_getcpu_returns_where_a_thread_runs(void **state)
{
	(void)state;
	cpu_set_t before, one;

	need_a_kernel();
	sched_getaffinity(0, sizeof(before), &before);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int seen = -1;
		if (!CPU_ISSET(cpu, &before))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		raw_run_with_tls(note_cpu, &seen);
		assert_int_equal(seen, cpu);
		assert_int_equal(sched_getcpu(), cpu);
	}
	sched_setaffinity(0, sizeof(before), &before);
}

static void lock_stdout(void *argument)
{
	*(bool *)argument = ftrylockfile(stdout) == 0;
	if (*(bool *)argument)
		funlockfile(stdout);
}

static void a_stream_that_another_thread_has_locked_is_locked(void **state)
{
	(void)state;
	bool got;

	flockfile(stdout);
	raw_run_with_tls(lock_stdout, &got);
	assert_false(got);
	funlockfile(stdout);
	raw_run_with_tls(lock_stdout, &got);
	assert_true(got);
}

static void do_little(void *argument)
{
	free(malloc(64));
	++*(int *)argument;
}

/* malloc's caches stay with the storage, so it does not grow with the number of ended threads. */
static void many_short_threads_need_no_more_memory(void **state)
{
	(void)state;
	int lives = 0;

	for (int i = 0; i < ROUNDS; i++)
		raw_run_with_tls(do_little, &lives);
	size_t before = mallinfo2().uordblks;
	for (int i = 0; i < 20 * ROUNDS; i++)
		raw_run_with_tls(do_little, &lives);
	assert_int_equal(lives, 21 * ROUNDS);
	assert_int_equal(mallinfo2().uordblks, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_thread_finds_first_values_in_storage_that_was_used),
		cmocka_unit_test(each_thread_keeps_values_of_its_own),
		cmocka_unit_test(memory_goes_from_thread_to_thread),
		cmocka_unit_test(a_thread_goes_on_with_its_values_on_another_kernel_thread),
		cmocka_unit_test(thread_local_objects_are_destroyed_once),
		cmocka_unit_test(a_library_loaded_later_has_first_values_in_each_thread),
		cmocka_unit_test(
			a_library_with_variables_in_the_block_finds_them_in_threads_that_were_there),
		cmocka_unit_test(setuid_returns_in_a_thread_with_storage_of_its_own),
		cmocka_unit_test(a_child_of_fork_goes_on_in_the_storage_of_the_thread_that_forked),
		cmocka_unit_test(sched_getcpu_returns_where_a_thread_runs),
		cmocka_unit_test(a_stream_that_another_thread_has_locked_is_locked),
		cmocka_unit_test(many_short_threads_need_no_more_memory),
	};
	struct tek_uthread first = {.tls = 0};

	if (!tek_ut__tls_available()) {
		print_message("1..0 # SKIP threads can have no storage of their own here\n");
		return 77;
	}
	tek_ut__tls_adopt(&first);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
