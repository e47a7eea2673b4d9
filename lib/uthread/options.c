/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The engine's options in text: TEK_UTHREAD, and the form that `tek run` gives its own options. */
#include "uthread/engine.h"

#include "uthread/sched.h"
#include "uthread/worker.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACE_BYTES 4096

static bool is(const char *text, size_t size, const char *word)
{
	return size == strlen(word) && memcmp(text, word, size) == 0;
}

/* A number with a unit behind it, or none; false: it is no number, or too large. */
static bool number(const char *text, size_t size, uint64_t *value, const char **unit,
		   size_t *unit_size)
{
	size_t digits = 0;

	*value = 0;
	while (digits < size && text[digits] >= '0' && text[digits] <= '9') {
		if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
		    __builtin_add_overflow(*value, (uint64_t)(text[digits] - '0'), value))
			return false;
		digits++;
	}
	*unit = text + digits;
	*unit_size = size - digits;
	return digits > 0;
}

static const struct unit {
	const char *name;
	uint64_t times;
} times_units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
  byte_units[] = {{"", 1}, {"K", 1 << 10}, {"k", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}},
  no_units[] = {{"", 1}};

#define WITH_UNITS(units) units, sizeof(units) / sizeof((units)[0])

static bool amount(const char *text, size_t size, const struct unit *units, size_t count,
		   uint64_t least, uint64_t most, uint64_t *value)
{
	const char *unit;
	size_t unit_size;

	if (!number(text, size, value, &unit, &unit_size))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (is(unit, unit_size, units[i].name))
			return !__builtin_mul_overflow(*value, units[i].times, value) &&
			       *value >= least && *value <= most;
	}
	return false;
}

/* The names of a list, for messages and in the order of their enum. */
#define SHOWN(kind, name, about) " " name
#define NAME(kind, name, about) name,

static const char *set_sched(struct tek_engine_options *options, const char *text, size_t size)
{
	const struct tek_sched *sched;

	for (unsigned int i = 0; (sched = tek_ut__sched_at(i)); i++) {
		if (is(text, size, sched->name)) {
			options->sched = sched;
			return NULL;
		}
	}
	return "no such scheduler: there are" TEK_SCHEDULERS(SHOWN);
}

static const char *set_preempt(struct tek_engine_options *options, const char *text, size_t size)
{
	static const char *const names[] = {TEK_PREEMPT_MODES(NAME)};
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is(text, size, names[i])) {
			options->preempt = (enum tek_preempt)i;
			return NULL;
		}
	}
	return "preempt is one of" TEK_PREEMPT_MODES(SHOWN);
}

static const char *set_lock(struct tek_engine_options *options, const char *text, size_t size)
{
	static const char *const names[] = {TEK_ENGINE_LOCKS(NAME)};
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is(text, size, names[i])) {
			options->lock = (enum tek_engine_lock)i;
			return NULL;
		}
	}
	return "lock is one of" TEK_ENGINE_LOCKS(SHOWN);
}

/* CPUs with colons between them: at most as many as workers. */
static const char *set_pin(struct tek_engine_options *options, const char *text, size_t size)
{
	unsigned int count = 0;

	for (const char *end = text + size;;) {
		uint64_t cpu;
		const char *rest;
		size_t rest_size;
		if (!number(text, (size_t)(end - text), &cpu, &rest, &rest_size) ||
		    cpu >= CPU_SETSIZE || (rest_size && *rest != ':') || count == TEK_WORKERS_MAX)
			return "pin is a list of CPUs, as in 0:2:1";
		options->pin_cpus[count++] = (unsigned short)cpu;
		if (!rest_size)
			break;
		text = rest + 1;
	}
	options->pin = true;
	options->pin_count = count;
	return NULL;
}

static const char *set_trace(struct tek_engine_options *options, const char *text, size_t size)
{
	static char path[TRACE_BYTES];

	if (size == 0 || size >= sizeof(path))
		return "trace is a path";
	memcpy(path, text, size);
	path[size] = '\0';
	options->trace = path;
	return NULL;
}

const char *tek_ut__engine_option(struct tek_engine_options *options, const char *text, size_t size)
{
	const char *equals = memchr(text, '=', size);
	size_t name = equals ? (size_t)(equals - text) : size;
	const char *value = equals ? equals + 1 : text + size;
	size_t value_size = size - name - (equals ? 1 : 0);
	uint64_t number;

	if (is(text, name, "workers")) {
		if (!amount(value, value_size, WITH_UNITS(no_units), 1, TEK_WORKERS_MAX, &number))
			return "workers is a number from 1 to 256";
		options->workers = (unsigned int)number;
	} else if (is(text, name, "quantum")) {
		if (!amount(value, value_size, WITH_UNITS(times_units), TEK_QUANTUM_LEAST_NS,
			    TEK_QUANTUM_MOST_NS, &number))
			return "quantum is a time from 50us to 10s, as in 200us, 5ms or 1s";
		options->quantum_ns = number;
	} else if (is(text, name, "promote")) {
		if (!amount(value, value_size, WITH_UNITS(no_units), 1, TEK_MOST_PROMOTE_QUANTA,
			    &number))
			return "promote is a number of quanta, 1 or more";
		options->promote_quanta = number;
	} else if (is(text, name, "pool")) {
		if (!amount(value, value_size, WITH_UNITS(no_units), 1, TEK_MOST_POOL_THREADS,
			    &number))
			return "pool is a number of threads, 1 to 10000000";
		options->pool = (unsigned int)number;
	} else if (is(text, name, "stack")) {
		if (!amount(value, value_size, WITH_UNITS(byte_units), TEK_UTHREAD_STACK_LEAST,
			    TEK_UTHREAD_STACK_MOST, &number))
			return "stack is a size from 16K to 1G";
		options->stack_bytes = (size_t)number;
	} else if (is(text, name, "sched")) {
		return set_sched(options, value, value_size);
	} else if (is(text, name, "preempt")) {
		return set_preempt(options, value, value_size);
	} else if (is(text, name, "lock")) {
		return set_lock(options, value, value_size);
	} else if (is(text, name, "trace")) {
		return set_trace(options, value, value_size);
	} else if (is(text, size, "pin")) {
		options->pin = true;
		options->pin_count = 0;
	} else if (is(text, name, "pin")) {
		return set_pin(options, value, value_size);
	} else if (is(text, size, "foreign")) {
		options->foreign = true;
	} else {
		return "no such option: there are workers=, sched=, quantum=, preempt=, "
		       "promote=, pool=, lock=, stack=, pin, pin=, foreign and trace=";
	}
	return NULL;
}

void tek_ut__engine_complain(const char *text, size_t size, const char *why)
{
	char line[512];
	int bytes = snprintf(line, sizeof(line), "tek: TEK_UTHREAD: %.*s%s%s\n", (int)size, text,
			     size ? ": " : "", why);
	if (bytes > 0)
		(void)!write(STDERR_FILENO, line,
			     (size_t)bytes < sizeof(line) ? (size_t)bytes : sizeof(line) - 1);
}

void tek_ut__engine_parse(struct tek_engine_options *options, const char *list,
			  void (*wrong)(const char *text, size_t size, const char *why))
{
	while (*list) {
		size_t size = strcspn(list, ",");
		/* A path may contain commas: it is the last one. */
		if (strncmp(list, "trace=", 6) == 0)
			size = strlen(list);
		if (size > 0) {
			const char *why = tek_ut__engine_option(options, list, size);
			if (why)
				wrong(list, size, why);
		}
		list += size;
		list += *list == ',';
	}
}
