/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ident/sanitizer.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

static int find_program(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(ElfW(Addr) *)base = info->dlpi_addr;
	return 1; /* the program itself is the first */
}

static const char *const symbols[] = {"__asan_init", "__tsan_init", "__msan_init"};
static bool loaded;

void tek__sanitizer_start(void)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		loaded = loaded || dlsym(RTLD_DEFAULT, symbols[i]);
}

bool tek__sanitizer_is_loaded(void)
{
	return loaded;
}

bool tek__sanitizer_in_program(void)
{
	ElfW(Addr) program = 0;

	dl_iterate_phdr(find_program, &program);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(RTLD_DEFAULT, symbols[i]);
		struct link_map *object;
		Dl_info info;
		if (symbol && dladdr1(symbol, &info, (void **)&object, RTLD_DL_LINKMAP) &&
		    object->l_addr == program)
			return true;
	}
	return false;
}

bool tek__sanitizer_of_threads(void)
{
	return dlsym(RTLD_DEFAULT, "__tsan_init") != NULL;
}
