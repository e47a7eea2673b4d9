/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The build id of a loaded file, by which it is known again. */
#ifndef TEK_BASE_BUILD_ID_H
#define TEK_BASE_BUILD_ID_H

#include "tek_abi.h"

#include <stddef.h>

/* Sets the module's build id from the bytes of a note segment (elf(5)), if it is there. */
void tek__build_id_read(struct tek_module *module, const char *note, size_t size);

#endif
