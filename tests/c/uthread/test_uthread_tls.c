/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Thread-local storage of their own: contexts and blocks, without the engine. */
#include "tls_support.h"

#include "uthread/worker.h"

#include <ctype.h>
#include <malloc.h>

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
