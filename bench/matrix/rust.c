/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The row in which touch waits for a std::sync::Mutex of Rust, which a library has: --library. */
#include "row.h"

#include <dlfcn.h>
#include <err.h>
#include <stdlib.h>

const char *rust_library;

/* Locks the mutex, calls the function, and unlocks the mutex. */
static void (*with_mutex)(void (*held)(void));

static void rust_prepare(void)
{
	if (!rust_library)
		errx(2, "--row rust-mutex needs --library");
	void *library = dlopen(rust_library, RTLD_NOW);
	if (!library)
		errx(EXIT_FAILURE, "cannot load the mutex: %s", dlerror());
	*(void **)&with_mutex = dlsym(library, "matrix_with_mutex");
	if (!with_mutex)
		errx(EXIT_FAILURE, "%s has no matrix_with_mutex", rust_library);
}

static void work_held(void)
{
	work_ms(PART_MS);
}

static void *hold_rust(void *arg)
{
	for (;;) {
		with_mutex(work_held);
		background_did();
		work_ms(PART_MS);
	}
	return arg;
}

static void rust_start(void)
{
	thread_start("logger", hold_rust, NULL);
}

static void nothing(void) {}

static void rust_wait(void)
{
	with_mutex(nothing);
}

const struct row rust_rows[] = {
	{.name = "rust-mutex", .prepare = rust_prepare, .start = rust_start, .wait = rust_wait},
	{.name = NULL},
};
