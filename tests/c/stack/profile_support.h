/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Test programs of which a profile says what their threads use: each runs itself once more, with
 * a profile of its own.  And threads that do not exist, to be noted as if they had been measured.
 */
#ifndef TEK_TESTS_PROFILE_SUPPORT_H
#define TEK_TESTS_PROFILE_SUPPORT_H

#include "support.h"

#include "base/module.h"
#include "stack/config.h"
#include "stack/kind.h"
#include "threads/process.h"
#include "threads/thread.h"

#include <sys/stat.h>

enum {
	KIB = 1024,
	MIB = 1024 * KIB,
	/* More than threads really use here, so that measures of TEK's own do not count. */
	USED = 100 * KIB,
	KNOWN_BOUND = 200 * KIB,
	DEFAULT_BYTES = 8 * MIB,
};

/* The profile lies there, and the tables that processes leave. */
static char directory[64] __attribute__((unused));

static inline void need_tuner(void)
{
	if (tek__stack_is_on())
		return;
	print_message("# the Stack Tuner is off under a sanitizer\n");
	skip();
}

/* A profile's lines. */

static inline void print_place(FILE *profile, uintptr_t address)
{
	const struct tek_module *module = tek__module_of(address);
	assert_non_null(module);
	for (unsigned int i = 0; i < module->build_id_bytes; i++)
		fprintf(profile, "%02x", module->build_id[i]);
	if (!module->build_id_bytes)
		fprintf(profile, "@%s", program_invocation_short_name);
	fprintf(profile, "+0x%llx", (unsigned long long)(address - module->bias));
}

static inline void print_kind(FILE *profile, uintptr_t function, uintptr_t caller, const char *rest)
{
	fprintf(profile, "kind function=");
	print_place(profile, function);
	fprintf(profile, " caller=");
	if (caller)
		print_place(profile, caller);
	else
		fprintf(profile, "-");
	fprintf(profile, " %s\n", rest);
}

static inline void write_profile(void (*print_kinds)(FILE *))
{
	char path[sizeof(directory) + 64];
	int at;

	tek__module_note_program();
	const struct tek_module *program = tek__module_program();
	assert_non_null(program);
	at = snprintf(path, sizeof(path), "%s/", directory);
	for (unsigned int i = 0; i < program->build_id_bytes; i++)
		at += sprintf(path + at, "%02x", program->build_id[i]);
	if (!program->build_id_bytes)
		at += sprintf(path + at, "@%s", program_invocation_short_name);
	strcpy(path + at, ".stack");
	FILE *profile = fopen(path, "w");
	assert_non_null(profile);
	fprintf(profile, "tek-stack-profile 1\nprogram %s\n", program_invocation_short_name);
	print_kinds(profile);
	assert_int_equal(fclose(profile), 0);
	assert_int_equal(chmod(path, 0644), 0);
}

/* The same program again, with that; then what it left goes. */
static inline int run_with_profile(void (*print_kinds)(FILE *))
{
	char command[sizeof(directory) + 16];
	int status;

	snprintf(directory, sizeof(directory), "/tmp/tek-test-XXXXXX");
	if (!mkdtemp(directory))
		return 1;
	write_profile(print_kinds);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		const struct rlimit limit = {DEFAULT_BYTES, RLIM_INFINITY};
		setrlimit(RLIMIT_STACK, &limit);
		setenv("TEK_STACK", "auto,period=0", 1);
		setenv("TEK_STACK_PROFILES", directory, 1);
		setenv("TEK_RUN_DIR", directory, 1);
		setenv("TEK_TEST_DIRECTORY", directory, 1);
		execl("/proc/self/exe", program_invocation_short_name, NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command) || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}

/* Whether this is that second run, and where. */
static inline bool has_profile(void)
{
	const char *given = getenv("TEK_TEST_DIRECTORY");

	snprintf(directory, sizeof(directory), "%s", given ? given : "");
	return given;
}

/* Threads that do not exist, with addresses of nothing. The lock is held. */

static inline struct tek_thread made_up(uintptr_t function, uintptr_t call_site)
{
	return (struct tek_thread){
		.birth = {.function = function, .call_site = call_site},
		.role = "",
		.stack = {.bytes = DEFAULT_BYTES, .zone = TEK_ZONE_LOW, .measured = true}};
}

static inline bool note(struct tek_thread *thread, uint32_t peak)
{
	const struct tek_stack_use use = {.peak_bytes = peak, .bound_bytes = peak + 100};
	thread->stack.use = use;
	return tek__kind_note(thread, &use);
}

static inline int take_lock(void **state)
{
	(void)state;
	bool locked = tek__lock();
	tek__thread_self(); /* so that there is a table */
	return !locked;
}

static inline int give_lock(void **state)
{
	(void)state;
	tek__unlock();
	return 0;
}

#endif
