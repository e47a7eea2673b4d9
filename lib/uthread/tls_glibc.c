/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "uthread/tls_glibc.h"

#include "base/definition.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <netdb.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tek_glibc tek_ut__glibc;

#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))

/*
 * The C library's description of a field for libthread_db: bits of an element, elements, offset in
 * bytes.
 */
struct description {
	uint32_t bits, elements, offset;
};

static void *c_library;

static bool find_function(const char *name, void *function)
{
	void *found = dlsym(c_library, name);
	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

static bool find_field(const char *name, uint32_t bits, size_t *offset)
{
	const struct description *field = dlsym(c_library, name);

	if (!field || field->bits != bits || field->offset >= tek_ut__glibc.bytes)
		return false;
	*offset = field->offset;
	return true;
}

static bool find_functions(void)
{
	find_function("_dl_get_tls_static_info", &tek_ut__glibc.static_info);
	return find_function("_dl_allocate_tls", &tek_ut__glibc.allocate) &&
	       find_function("_dl_deallocate_tls", &tek_ut__glibc.deallocate) &&
	       find_function("__call_tls_dtors", &tek_ut__glibc.call_destructors) &&
	       find_function("uselocale", &tek_ut__glibc.use_locale) &&
	       find_function("dlerror", &tek_ut__glibc.load_error);
}

static uintptr_t word_at(const char *structure, size_t offset)
{
	uintptr_t word;
	memcpy(&word, structure + offset, sizeof(word));
	return word;
}

/*
 * The first block of thread-specific data lies in the structure, and the table of blocks begins
 * with it.
 */
static bool find_keys(const char *structure)
{
	const struct description *table = dlsym(c_library, "_thread_db_pthread_specific");

	if (!table || table->offset + table->bits / 8 > tek_ut__glibc.bytes)
		return false;
	tek_ut__glibc.keys = table->offset;
	tek_ut__glibc.first_keys = word_at(structure, tek_ut__glibc.keys) - (uintptr_t)structure;
	return tek_ut__glibc.first_keys && tek_ut__glibc.first_keys < tek_ut__glibc.bytes;
}

/* The byte behind `report_events`; the first thread's stack is not the C library's. */
static void find_given_stack(const char *structure)
{
	size_t events;

	if (find_field("_thread_db_pthread_report_events", 8, &events) &&
	    structure[events + 1] == 1)
		tek_ut__glibc.given_stack = events + 1;
}

/*
 * The C library takes a quarter of a stack's size for alloca(3). For the first thread it has no
 * size, and stores the end of its stack there (__libc_stack_end).
 */
static void find_stack_bytes(const char *structure)
{
	uintptr_t *const end = dlsym(c_library, "__libc_stack_end");
	size_t found = 0;

	if (!end)
		return;
	for (size_t at = tek_ut__glibc.keys; at + sizeof(*end) <= tek_ut__glibc.bytes;
	     at += sizeof(*end)) {
		if (word_at(structure, at) != *end)
			continue;
		if (found)
			return;
		found = at;
	}
	if (found && !word_at(structure, found - sizeof(*end)))
		tek_ut__glibc.stack_bytes = found;
}

/*
 * The kernel has the address of the list of robust mutexes; a word before it points to its last
 * element.
 */
static void find_robust(const char *structure)
{
	struct robust_list_head *head;
	size_t size;

	if (syscall(SYS_get_robust_list, 0, &head, &size))
		return;
	size_t at = (size_t)((char *)head - structure);
	if (at >= sizeof(head) && at + sizeof(*head) <= tek_ut__glibc.bytes &&
	    word_at(structure, at - sizeof(head)) == (uintptr_t)head) {
		tek_ut__glibc.robust = at;
		tek_ut__glibc.robust_futex = head->futex_offset;
	}
}

static void find_variables(uintptr_t pointer)
{
	const ptrdiff_t *const rseq_offset = dlsym(c_library, "__rseq_offset");
	const unsigned int *const rseq_size = dlsym(c_library, "__rseq_size");
	char *resolver = dlsym(c_library, "__resp"); /* its address in the calling thread */

	tek_ut__glibc.error = (char *)&errno - (char *)pointer;
	tek_ut__glibc.host_error = (char *)&h_errno - (char *)pointer;
	if (resolver)
		tek_ut__glibc.resolver = resolver - (char *)pointer;
	if (rseq_offset && rseq_size && *rseq_size) {
		tek_ut__glibc.rseq = *rseq_offset;
		tek_ut__glibc.rseq_bytes = *rseq_size;
	}
}

/* Whether the vector has the loader's address of a module's variables. */
static int check_module(struct dl_phdr_info *info, size_t size, void *argument)
{
	const struct tek_tls_entry *vector = tek_ut__tls_vector(tek_ut__tls_pointer());
	const size_t number = info->dlpi_tls_modid;
	bool *same = argument;

	(void)size;
	if (number && info->dlpi_tls_data)
		*same = *same && number <= (size_t)vector[-1].value &&
			vector[number].value == info->dlpi_tls_data;
	return !*same;
}

/* Whether the head of the structure, which is part of the ABI, has the structure's address. */
static bool check_head(uintptr_t pointer)
{
#if defined(__x86_64__)
	const char *head = (const char *)pointer;
	return word_at(head, 0) == pointer && word_at(head, 2 * sizeof(pointer)) == pointer;
#else
	return pointer != 0;
#endif
}

static bool check_vector(void)
{
	bool same = true;

	dl_iterate_phdr(check_module, &same);
	return same;
}

/*
 * Sanitizers follow the thread pointer from one kernel thread's storage to the next one's, or are
 * lost.
 */
static bool has_sanitizer(void)
{
	static const char *const symbols[] = {"__asan_init", "__tsan_init", "__msan_init",
					      "__hwasan_init"};
	struct tek_definition ignored;

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		if (tek__defining_file(symbols[i], &ignored))
			return true;
	return false;
}

bool tek_ut__glibc_find(void)
{
	const uintptr_t pointer = tek_ut__tls_pointer();

	c_library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	if (!c_library || has_sanitizer() || !find_functions())
		return false;
	const uint32_t *bytes = dlsym(c_library, "_thread_db_sizeof_pthread");
	if (!bytes || *bytes % sizeof(void *) || *bytes > 1 << 16)
		return false;
	tek_ut__glibc.bytes = *bytes;
	const char *structure = tek_ut__tls_structure(pointer);
	if (!check_head(pointer) || !check_vector())
		return false;
	if (!find_field("_thread_db_pthread_tid", 32, &tek_ut__glibc.tid) ||
	    !find_field("_thread_db_pthread_list", 16 * sizeof(void *), &tek_ut__glibc.list) ||
	    !find_keys(structure))
		return false;
	pid_t tid;
	memcpy(&tid, structure + tek_ut__glibc.tid, sizeof(tid));
	if (tid != (pid_t)syscall(SYS_gettid))
		return false;
	find_given_stack(structure);
	find_stack_bytes(structure);
	find_robust(structure);
	find_variables(pointer);
	return true;
}

#else

bool tek_ut__glibc_find(void)
{
	return false;
}

#endif
