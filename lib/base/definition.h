/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a name is defined: what dlsym(3) returns, read from the symbol tables of the loaded files.
 *
 * dlsym() takes the loader's lock, and allocates the text of its error if there is no definition.
 * The functions here take no lock, allocate nothing and call no function of another file.  They may
 * be called at any moment, even before the loader has relocated the calling file.
 *
 * Some functions of the C library have several versions that differ.  A program that is linked
 * today gets the default one, and so does a caller of these functions.
 *
 * The functions read the list of loaded files without a lock, from its beginning. The files that
 * were loaded at the start of the process come first, and stay. A search reaches a file that was
 * loaded later only if no earlier file defines the name.
 */
#ifndef TEK_BASE_DEFINITION_H
#define TEK_BASE_DEFINITION_H

#include <link.h>
#include <stdbool.h>

struct tek_definition {
	void *address;
	bool is_resolver; /* IFUNC: calling it returns the address of the function */
};

/* The file that contains this code, in the loader's list; NULL: it is not there. */
const struct link_map *tek__own_file(void);

/*
 * Calls `visit` for each file of the other namespaces (dlmopen(3)).  Only for a function that
 * dl_iterate_phdr(3) calls: nothing is loaded or unloaded meanwhile.  Before glibc 2.35 it finds
 * none.
 */
void tek__each_file_elsewhere(void (*visit)(struct link_map *file, void *value), void *value);

/* The C library, in the loader's list. */
const struct link_map *tek__c_library_file(void);

/* Whether a loaded file defines the name.  If so, *definition is set. */
bool tek__defined_in(const struct link_map *file, const char *name,
		     struct tek_definition *definition);

/* The first file, of all that are loaded, that defines the name; NULL: there is none. */
const struct link_map *tek__defining_file(const char *name, struct tek_definition *definition);

/*
 * The C library's function of a name, whatever files come before the C library.  NULL: it has none,
 * or selects one when it is loaded (IFUNC), as for memcpy(3) and strlen(3).
 */
void *tek__c_library_function(const char *name);

/* The function of libtek-uthread.so, if it is loaded and defines the name; else the C library's. */
void *tek__engine_function(const char *name);

/* The function of the first of TEK's libraries that defines the name; else the C library's. */
void *tek__shared_function(const char *name);

#endif
