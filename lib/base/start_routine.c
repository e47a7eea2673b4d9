/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/start_routine.h"

#include "base/cxx_thread.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORD = sizeof(uintptr_t) };

/* The object of an argument may be smaller than expected, or written by other threads. */
#define UNCHECKED __attribute__((no_sanitize("address", "thread")))

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; before, no argument of an unknown file is read */
#endif

/*
 * Whether ordinary memory is there.  The kernel says so without reading it, and says no of
 * registers of a device, which may do something when they are read.
 */
static bool is_memory(uintptr_t page, size_t bytes)
{
	const int saved = errno;
	bool is = madvise((void *)page, bytes, MADV_POPULATE_READ) == 0;

	errno = saved;
	return is;
}

/* Some emulators say yes to everything. */
static bool kernel_can_report(size_t page_bytes)
{
	enum { UNKNOWN, YES, NO };
	static atomic_int answer;

	if (atomic_load_explicit(&answer, memory_order_relaxed) == UNKNOWN) {
		const int saved = errno;
		void *page = mmap(NULL, page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED) {
			errno = saved;
			return false;
		}
		bool can = !is_memory((uintptr_t)page, page_bytes);
		munmap(page, page_bytes);
		errno = saved;
		atomic_store_explicit(&answer, can ? YES : NO, memory_order_relaxed);
	}
	return atomic_load_explicit(&answer, memory_order_relaxed) == YES;
}

static bool is_on_page_of(uintptr_t address, uintptr_t other)
{
	return (address ^ other) < (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* The list of files, in the present look at an argument. */
static __thread const struct tek_files *files __attribute__((tls_model("initial-exec")));

/* The page that was found to be memory last, in the present look at an argument; 0: none. */
static __thread uintptr_t known_page __attribute__((tls_model("initial-exec")));

static bool can_read_word(uintptr_t address)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const uintptr_t page = address & ~(uintptr_t)(page_bytes - 1);

	if (!page || address % WORD)
		return false;
	if (page == known_page)
		return true;
	if (!kernel_can_report(page_bytes) || !is_memory(page, page_bytes))
		return false;
	known_page = page;
	return true;
}

/* The word there; 0: it cannot be read. */
UNCHECKED static uintptr_t word_at(uintptr_t address)
{
	return can_read_word(address) ? *(const uintptr_t *)address : 0;
}

static bool is_code(uintptr_t address)
{
	return address && files->access(address, 1) & PF_X;
}

/*
 * Text of a loaded file, or of the heap, as far as it is printable ASCII and there is room for it.
 */
UNCHECKED static void copy_text(char *to, size_t size, uintptr_t text)
{
	uintptr_t word = 0;
	size_t length = 0;

	for (; length + 1 < size; length++) {
		uintptr_t at = text + length;
		if (length == 0 || at % WORD == 0) {
			if (!can_read_word(at & ~(uintptr_t)(WORD - 1)))
				break;
			word = *(const uintptr_t *)(at & ~(uintptr_t)(WORD - 1));
		}
		char byte;
		memcpy(&byte, (const char *)&word + at % WORD, 1);
		if (byte < ' ' || byte > '~')
			break;
		to[length] = byte;
	}
	to[length] = '\0';
}

static void copy_name(char name[16], uintptr_t text)
{
	copy_text(name, 16, text);
}

/*
 * struct _GThread of GLib begins with function and data, and has its name behind six numbers of 4
 * bytes.
 */
UNCHECKED static void of_glib(struct tek_start_routine *start, uintptr_t routine,
			      const uintptr_t *thread)
{
	const size_t name_at = 2 * WORD + 4 * sizeof(int);
	uintptr_t function = thread[0], name;

	if (!is_code(function))
		return;
	files->note(function);
	memcpy(&name, (const char *)thread + name_at, sizeof(name));
	if (name)
		copy_name(start->name, name);
	/* The threads of a pool: a struct _GThreadPool begins with its function. */
	if (files->of(function) == files->of(routine)) {
		uintptr_t of_pool = word_at(thread[1]);
		if (is_code(of_pool) && files->of(of_pool) != files->of(routine))
			function = of_pool;
	}
	start->function = function;
}

/* struct gomp_thread_start_data begins with the function. */
UNCHECKED static void of_openmp(struct tek_start_routine *start, const uintptr_t *data)
{
	if (is_code(data[0]))
		start->function = data[0];
}

/* A QThread: an object with a table of virtual functions. QObject has 12, then comes run(). */
UNCHECKED static void of_qt(struct tek_start_routine *start, uintptr_t routine,
			    const uintptr_t *thread)
{
	static const char of_create[] = "19QThreadCreateThread";
	const size_t run_at = 12, future_at = 2;
	const uintptr_t table = thread[0];
	const char *name = tek__cxx_class_of(files, table);

	if (!name || !files->access(table, (run_at + 1) * WORD))
		return;
	uintptr_t run = ((const uintptr_t *)table)[run_at];
	files->note(run);
	if (is_code(run) && files->of(run) != files->of(routine)) {
		start->function = run;
	} else if (strcmp(name, of_create) == 0) {
		/* QThread::create() keeps what it was given in the state of a std::future. */
		uintptr_t state = word_at((uintptr_t)&thread[future_at]);
		uintptr_t of_state = word_at(state);
		if (tek__cxx_class_of(files, of_state))
			start->function = of_state;
	} else {
		start->function = table;
	}
}

/*
 * The table of a `dyn FnOnce()` of Rust: the function that drops it or 0, its size, its alignment,
 * the function that calls it.  Returns that; 0: it is no such table.
 */
static uintptr_t closure_of(uintptr_t table)
{
	enum { DROP, SIZE, ALIGNMENT, CALL, WORDS };
	const size_t most_bytes = 1 << 30, most_alignment = 1 << 16;

	if (!table || table % WORD)
		return 0;
	unsigned int access = files->access(table, WORDS * WORD);
	if (!(access & PF_R) || access & PF_X)
		return 0;
	const uintptr_t *words = (const uintptr_t *)table;
	uintptr_t alignment = words[ALIGNMENT];
	if ((words[DROP] && !is_code(words[DROP])) || !alignment || alignment > most_alignment ||
	    alignment & (alignment - 1) || words[SIZE] % alignment || words[SIZE] > most_bytes)
		return 0;
	return is_code(words[CALL]) ? words[CALL] : 0;
}

/*
 * Of any file.  The argument is a Box of a fat pointer, data and table, or since Rust 1.91 of
 * a structure that has one: in its first words, in any order.  `words` of them are there.
 */
UNCHECKED static bool of_rust(struct tek_start_routine *start, const uintptr_t *argument,
			      size_t words)
{
	for (size_t i = 0; i + 1 < words; i++) {
		uintptr_t closure = argument[i] ? closure_of(argument[i + 1]) : 0;
		if (closure) {
			start->function = closure;
			return true;
		}
	}
	return false;
}

/* Words of CPython's objects: a count of references, their type, and what is in them. */
enum { TYPE = 1, TYPE_NAME = 3, TYPE_BYTES = 4, METHOD_SELF = 3, STR_LENGTH = 2 };

/* The name of the class of an object of Python; "": it is none. */
static void class_of(uintptr_t object, char name[16])
{
	uintptr_t type = object ? word_at(object + TYPE * WORD) : 0;

	copy_name(name, type ? word_at(type + TYPE_NAME * WORD) : 0);
}

/* A str of Python; its text is so many words behind its beginning. */
static bool copy_str(uintptr_t object, size_t text_at, char *to, size_t size)
{
	char name[16];

	class_of(object, name);
	if (strcmp(name, "str") != 0)
		return false;
	copy_text(to, size, object + text_at * WORD);
	return to[0] &&
	       (strlen(to) == word_at(object + STR_LENGTH * WORD) || strlen(to) == size - 1);
}

/*
 * The name of a threading.Thread: the second attribute that is set.  Python 3.11 has a pointer to
 * the attributes before the object, 3.12 one less by a byte at another place, and from 3.13 on they
 * lie behind the object.
 */
static bool copy_thread_name(uintptr_t thread, char *to, size_t size)
{
	const uintptr_t values_11 = word_at(thread - 4 * WORD),
			values_12 = word_at(thread - 3 * WORD);
	const uintptr_t type = word_at(thread + TYPE * WORD);
	const uintptr_t bytes = type ? word_at(type + TYPE_BYTES * WORD) : 0;

	if (values_11 && copy_str(word_at(values_11 + WORD), 6, to, size))
		return true;
	if (values_12 % 2 && copy_str(word_at(values_12 + 1 + WORD), 5, to, size))
		return true;
	return bytes && bytes < 4096 && copy_str(word_at(thread + bytes + 2 * WORD), 5, to, size);
}

/* Python names a thread "Thread-7 (work)" if its program does not: then work() is what it runs. */
static void name_thread(char name[16], char *text)
{
	static const char usual[] = "Thread-";
	char *open = strchr(text, '('), *end = open ? strchr(open, ')') : NULL;

	if (strncmp(text, usual, strlen(usual)) == 0) {
		if (!open)
			return;
		text = open + 1;
		if (end)
			*end = '\0';
	}
	const size_t length = strnlen(text, 15);
	memcpy(name, text, length);
	name[length] = '\0';
}

/*
 * CPython from 3.7 on: its start routine gets a function of its own and a structure; the
 * structure's second word is the callable, a bound method (threading.Thread._bootstrap).
 */
UNCHECKED static bool of_python(struct tek_start_routine *start, uintptr_t routine,
				const uintptr_t *argument)
{
	char name[16], text[64];

	if (!is_code(argument[0]) || files->of(argument[0]) != files->of(routine))
		return false;
	uintptr_t callable = word_at(argument[1] + WORD);
	class_of(callable, name);
	if (strcmp(name, "method") != 0)
		return false;
	uintptr_t self = word_at(callable + METHOD_SELF * WORD);
	class_of(self, name);
	/* All threads that are not of a class of their own are of this one. */
	if (strcmp(name, "Thread") != 0)
		memcpy(start->name, name, sizeof(name));
	else if (copy_thread_name(self, text, sizeof(text)))
		name_thread(start->name, text);
	return true;
}

/*
 * Start routines of unknown files with arguments of a runtime. The first few threads of each are
 * checked; then the result is final.
 */
enum { ROUTINES = 64, TRIES = 4, STATES = 8, IS_ONE = STATES - 1 };
static _Atomic uint64_t
	routines[ROUTINES]; /* address * STATES + how often it was in vain, or IS_ONE */

enum { FEWEST_WORDS = 2, MOST_WORDS = 3 };

/*
 * The number of readable words of the argument. A routine that is not known to be a runtime's must
 * have all of them; a runtime's argument has at least the fewest.
 */
static size_t words_at(uintptr_t argument, bool is_one)
{
	const uintptr_t last = argument + (MOST_WORDS - 1) * WORD;

	if (is_one)
		return is_on_page_of(last, last - WORD) || can_read_word(last) ? MOST_WORDS
									       : FEWEST_WORDS;
	return can_read_word(argument) && can_read_word(last) ? MOST_WORDS : 0;
}

static void of_any_file(struct tek_start_routine *start, uintptr_t routine,
			const uintptr_t *argument)
{
	_Atomic uint64_t *place = &routines[(routine >> 4) % ROUTINES];
	const uint64_t none = (uint64_t)routine * STATES;
	uint64_t state = atomic_load_explicit(place, memory_order_relaxed);

	if (state / STATES != routine)
		state = none;
	if (state % STATES == TRIES)
		return;
	/* The argument of such a runtime is readable: two words or three. */
	const size_t words = words_at((uintptr_t)argument, state % STATES == IS_ONE);
	if (!words)
		state++;
	else if (of_rust(start, argument, words) || of_python(start, routine, argument))
		state = none + IS_ONE;
	else if (state % STATES != IS_ONE)
		state++;
	atomic_store_explicit(place, state, memory_order_relaxed);
}

static bool is_of(const char *file, const char *name)
{
	return strncmp(file, name, strlen(name)) == 0;
}

struct tek_start_routine tek__start_routine(const struct tek_files *listed, uintptr_t routine,
					    const void *argument)
{
	struct tek_start_routine start = {.function = routine};

	files = listed;
	known_page = 0;
	files->note(routine);
	if (!argument || (uintptr_t)argument % WORD)
		return start;
	const char *file = files->name(routine);
	if (is_of(file, "libstdc++.so."))
		start.function = tek__cxx_function(files, routine, argument);
	else if (is_of(file, "libglib-2.0.so"))
		of_glib(&start, routine, argument);
	else if (is_of(file, "libgomp.so") || is_of(file, "libgomp-"))
		of_openmp(&start, argument);
	else if (is_of(file, "libQt5Core") || is_of(file, "libQt6Core"))
		of_qt(&start, routine, argument);
	else
		of_any_file(&start, routine, argument);
	files->note(start.function);
	return start;
}
