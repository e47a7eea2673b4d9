/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "exec/c_library.h"

#include "exec/target.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	MAX_VERSIONS = 256, /* glibc has some 40 */
	MAX_LINKS = 8,
	NAME_BYTES = 32, /* of a version, or the beginning of a library's name */
};

static const char c_library[] = "libc.so.6";

/* The file in that directory, opened; -1: it is not there. `length` bytes of `directory` count. */
static int open_in(const char *directory, size_t length)
{
	char path[TEK_TARGET_PATH_BYTES];

	if (length + sizeof(c_library) + 1 > sizeof(path))
		return -1;
	snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, c_library);
	return tek__image_open(AT_FDCWD, path);
}

/* How many bytes $ORIGIN, or ${ORIGIN}, has at the beginning of a directory; 0: it is not there. */
static size_t origin_at(const char *directory)
{
	static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};

	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++)
		if (strncmp(directory, origins[i], strlen(origins[i])) == 0)
			return strlen(origins[i]);
	return 0;
}

static int open_in_list(const struct tek_image *program, const char *list)
{
	char path[TEK_TARGET_PATH_BYTES];
	int found = -1;

	while (*list && found < 0) {
		const size_t length = strcspn(list, ":"), origin = origin_at(list);
		if (!origin) {
			found = open_in(list, length);
		} else if (origin <= length && tek__image_path(program, path, sizeof(path))) {
			char *end = strrchr(path, '/');
			if ((size_t)(end - path) + length < sizeof(path)) {
				memcpy(end, list + origin, length - origin);
				end[length - origin] = '\0';
				found = open_in(path, strlen(path));
			}
		}
		list += length;
		list += *list == ':';
	}
	return found;
}

/* In the directories that the program names. */
static int open_by_program(const struct tek_image *program)
{
	char list[TEK_TARGET_PATH_BYTES];
	uint64_t at;

	if (!tek__image_dynamic_value(program, DT_RUNPATH, &at) &&
	    !tek__image_dynamic_value(program, DT_RPATH, &at))
		return -1;
	return tek__image_text(program, at, list, sizeof(list)) ? open_in_list(program, list) : -1;
}

/*
 * Beside the loader, or beside what that is a link to: one of ../lib/x86_64-linux-gnu/ld-2.27.so,
 * for example.
 */
static int open_by_loader(const char *loader)
{
	char path[TEK_TARGET_PATH_BYTES], target[TEK_TARGET_PATH_BYTES];

	if (strlen(loader) >= sizeof(path))
		return -1;
	strcpy(path, loader);
	for (int links = 0; links < MAX_LINKS; links++) {
		char *name = strrchr(path, '/');
		if (!name)
			return -1;
		const int found = open_in(path, (size_t)(name - path));
		if (found >= 0)
			return found;
		const ssize_t length = readlink(path, target, sizeof(target));
		if (length <= 0)
			return -1;
		char *to = target[0] == '/' ? path : name + 1;
		if ((size_t)(to - path) + (size_t)length >= sizeof(path))
			return -1;
		memcpy(to, target, (size_t)length);
		to[length] = '\0';
	}
	return -1;
}

/* Where the entries of such a section lie in the file; UINT64_MAX: it has none. */
static uint64_t section(const struct tek_image *image, int64_t tag)
{
	uint64_t address;

	return tek__image_dynamic_value(image, tag, &address) ? tek__image_offset(image, address)
							      : UINT64_MAX;
}

/* Both kinds of these structures are the same for both word sizes. */
static bool defines(const struct tek_image *image, const char *version, uint32_t hash)
{
	uint64_t at = section(image, DT_VERDEF);
	char name[NAME_BYTES];
	Elf64_Verdef each;
	Elf64_Verdaux its;

	for (int i = 0; at != UINT64_MAX && i < MAX_VERSIONS; i++) {
		if (!tek__image_bytes(image, &each, sizeof(each), at))
			return false;
		if (each.vd_hash == hash &&
		    tek__image_bytes(image, &its, sizeof(its), at + each.vd_aux) &&
		    tek__image_text(image, its.vda_name, name, sizeof(name)) &&
		    strcmp(name, version) == 0)
			return true;
		if (!each.vd_next)
			return false;
		at += each.vd_next;
	}
	return false;
}

/* Whether the C library defines all versions of one list of those that the library needs. */
static bool defines_list(const struct tek_image *image, const struct tek_image *library,
			 uint64_t at)
{
	char name[NAME_BYTES];
	Elf64_Vernaux each;

	for (int i = 0; i < MAX_VERSIONS; i++) {
		if (!tek__image_bytes(library, &each, sizeof(each), at) ||
		    !tek__image_text(library, each.vna_name, name, sizeof(name)) ||
		    !defines(image, name, each.vna_hash))
			return false;
		if (!each.vna_next)
			return true;
		at += each.vna_next;
	}
	return true;
}

static bool serves(const struct tek_image *image, const struct tek_image *library)
{
	uint64_t at = section(library, DT_VERNEED);
	char name[NAME_BYTES];
	Elf64_Verneed each;

	for (int i = 0; at != UINT64_MAX && i < MAX_VERSIONS; i++) {
		if (!tek__image_bytes(library, &each, sizeof(each), at) ||
		    !tek__image_text(library, each.vn_file, name, sizeof(name)))
			return true;
		if (strcmp(name, c_library) == 0)
			return defines_list(image, library, at + each.vn_aux);
		if (!each.vn_next)
			return true;
		at += each.vn_next;
	}
	return true;
}

bool tek__c_library_serves(const struct tek_image *program, const char *loader, const char *library)
{
	struct tek_image image, ours;
	int theirs = open_by_program(program);
	const int own = tek__image_open(AT_FDCWD, library);
	bool does = true; /* nothing is known of what is needed */

	if (theirs < 0)
		theirs = open_by_loader(loader);
	if (theirs < 0)
		does = false;
	else if (own >= 0 && tek__image_read(&image, theirs) && tek__image_read(&ours, own))
		does = serves(&image, &ours);
	if (own >= 0)
		tek__image_close(own);
	if (theirs >= 0)
		tek__image_close(theirs);
	return does;
}
