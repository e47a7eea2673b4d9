/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The loaded files as a library lists them, for base/start_routine.h: base/module.c has one list,
 * profile/modules.c another.
 */
#ifndef TEK_BASE_FILES_H
#define TEK_BASE_FILES_H

#include "tek_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The functions are described in base/module.h. */
struct tek_files {
	void (*note)(uintptr_t address);
	bool (*has)(uintptr_t address, size_t bytes);
	const char *(*name)(uintptr_t address);
	unsigned int (*access)(uintptr_t address, size_t bytes);
	const struct tek_module *(*of)(uintptr_t address);
};

#endif
