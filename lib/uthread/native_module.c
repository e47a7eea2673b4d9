/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where an address lies, for those who tell of a backtrace. Nothing is kept: there is no table here that lists files. */
#include "ident/module.h"

#include <dlfcn.h>
#include <link.h>

const char *tek__module_path(uintptr_t address, uintptr_t *bias)
{
	*bias = 0;
#if __GLIBC_PREREQ(2, 35)
	struct dl_find_object object;
	if (_dl_find_object((void *)address, &object) == 0) {
		*bias = object.dlfo_link_map->l_addr;
		return object.dlfo_link_map->l_name;
	}
#else
	(void)address; /* what else there is takes the loader's lock */
#endif
	return NULL;
}
