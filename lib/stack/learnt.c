/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack/learnt.h"

#include "base/module.h"
#include "base/page.h"
#include "stack/config.h"
#include "stack/profile.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct tek_learnt *kinds;
static unsigned int count;

/* How a profile calls a file; "" where it has neither a build id nor a name that is known. */
static void name_module(char name[sizeof(((struct tek_place *)NULL)->module)],
			const struct tek_module *module)
{
	const size_t size = sizeof(((struct tek_place *)NULL)->module);
	const char *base = strrchr((const char *)module->path, '/');

	name[0] = '\0';
	for (tek_u32 i = 0; i < module->build_id_bytes; i++)
		snprintf(name + (size_t)i * 2, 3, "%02x", module->build_id[i]);
	if (module->build_id_bytes || !base || !base[1])
		return;
	size_t length = strnlen(base + 1, size - 2);
	while (length && (base[1 + length] & 0xc0) == 0x80)
		length--; /* not in the middle of a character */
	name[0] = '@';
	memcpy(name + 1, base + 1, length);
	name[1 + length] = '\0';
}

static void keep(const struct tek_learnt *learnt, void *unused)
{
	(void)unused;
	if (count < TEK_PROFILE_MOST_KINDS)
		kinds[count++] = *learnt;
}

/* The profiles of all directories count. */
static void read_all(const char *module)
{
	char path[sizeof(tek__stack_config.profiles) + 64];

	for (const char *at = tek__stack_config.profiles, *end; *at; at = *end ? end + 1 : end) {
		end = strchrnul(at, ':');
		int length = (int)(end - at);
		if (length > 0 && snprintf(path, sizeof(path), "%.*s/%s.stack", length, at,
					   module) < (int)sizeof(path))
			tek__profile_read(path, keep, NULL);
	}
}

void tek__learnt_start(void)
{
	char module[sizeof(((struct tek_place *)NULL)->module)];
	const struct tek_module *program = tek__module_program();
	const size_t most = TEK_PROFILE_MOST_KINDS * sizeof(*kinds);

	if (!program || !tek__stack_config.profiles[0])
		return;
	name_module(module, program);
	if (!module[0])
		return;
	void *memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return;
	kinds = memory;
	read_all(module);
	/* The unused part, which may be all of it. */
	size_t used = (count * sizeof(*kinds) + tek__page_bytes - 1) & ~(tek__page_bytes - 1);
	if (used < most)
		munmap((char *)memory + used, most - used);
}

/* An address in the terms of a profile. Module "": nothing can be said of it. */
static struct tek_place place_of(uintptr_t address)
{
	const struct tek_module *module = tek__module_of(address);
	struct tek_place place = {0};

	if (module) {
		name_module(place.module, module);
		place.offset = address - (uintptr_t)module->bias;
	}
	return place;
}

static bool same(const struct tek_place *a, const struct tek_place *b)
{
	return a->offset == b->offset && strcmp(a->module, b->module) == 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* How much more such threads used in one run than in another. */
static uint64_t growth_of(const struct tek_learnt *kind)
{
	bool is_known = kind->least_bytes && kind->least_bytes < kind->bound_bytes;
	return is_known ? kind->bound_bytes - kind->least_bytes : 0;
}

static bool has_label(const struct tek_learnt *kind, const struct tek_label *label)
{
	return !label || (kind->label.is == label->is &&
			  memcmp(kind->label.text, label->text, sizeof(label->text)) == 0);
}

/* label NULL: any. */
struct tek_learnt_site tek__learnt_of_label(uintptr_t function, uintptr_t call_site,
					    const struct tek_label *label)
{
	struct tek_learnt_site sum = {0};

	if (!count)
		return sum;
	const struct tek_place runs = place_of(function), caller = place_of(call_site);
	for (unsigned int i = 0; i < count && runs.module[0]; i++) {
		const struct tek_learnt *kind = &kinds[i];
		if (!has_label(kind, label) || !same(&kind->function, &runs) ||
		    (kind->caller.module[0] && !same(&kind->caller, &caller)))
			continue;
		sum.bound_bytes = larger(sum.bound_bytes, kind->bound_bytes);
		sum.growth_bytes = larger(sum.growth_bytes, growth_of(kind));
		sum.peak_bytes = larger(sum.peak_bytes, kind->peak_bytes);
		sum.overflow_bytes = larger(sum.overflow_bytes, kind->overflow_bytes);
		sum.runs = larger(sum.runs, kind->runs);
		if (__builtin_add_overflow(sum.threads, kind->threads, &sum.threads))
			sum.threads = UINT64_MAX;
	}
	return sum;
}

struct tek_learnt_site tek__learnt_of(uintptr_t function, uintptr_t call_site)
{
	return tek__learnt_of_label(function, call_site, NULL);
}
