/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The files that contain start routines: the program and its libraries. The table lists them
 * (struct tek_module), so that other processes can name a routine without reading this process.
 *
 * A file is listed when a thread first begins in it, and stays listed. If two listed files cover an
 * address, because the first one was unloaded, the later one counts.
 */
#ifndef TEK_BASE_MODULE_H
#define TEK_BASE_MODULE_H

#include "base/files.h"
#include "tek_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Lists the file of an address. It takes the lock, so the caller must not hold it. Not in a signal
 * handler.
 */
void tek__module_note(uintptr_t address);

/* Whether so many bytes lie in a file that is listed. Needs no lock. */
bool tek__module_has(uintptr_t address, size_t bytes);

/*
 * The name of the listed file that has the address, without its directory; "": none. Needs no lock.
 */
const char *tek__module_name(uintptr_t address);

/*
 * PF_R, PF_W and PF_X of the segment of a loaded file that has so many bytes there; 0: none has, or
 * it was unloaded.  Needs no lock; not under it.
 */
unsigned int tek__module_access(uintptr_t address, size_t bytes);

/* The latest that has the address; NULL: none that is known. Needs no lock; stays as it is. */
const struct tek_module *tek__module_of(uintptr_t address);

/*
 * At the start, without the lock: have the program itself listed, and the script if it is an
 * interpreter.
 */
void tek__module_note_program(void);

/*
 * The program itself, for an interpreter its script; NULL: it was not noted, or cannot be. Needs no
 * lock.
 */
const struct tek_module *tek__module_program(void);

/*
 * Where an address lies: the path of its file, "" for the program itself where it is not listed,
 * and *bias as in struct tek_module; NULL: in no file.  Async-signal-safe.
 */
const char *tek__module_path(uintptr_t address, uintptr_t *bias);

/*
 * List them in a table that was just made; in the child of a fork they are the same. Needs the
 * lock.
 */
void tek__modules_list(void);

/* The same list, for base/start_routine.h. */
extern const struct tek_files tek__files;

#endif
