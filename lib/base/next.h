/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that TEK's interposed symbols call: the next definition of the same name. Any
 * thread may call these at any time, also before a constructor has run.
 */
#ifndef TEK_BASE_NEXT_H
#define TEK_BASE_NEXT_H

/*
 * The function of a name in the next file that defines it, in the loader's order: a library that is
 * preloaded after the calling one, or the C library. As dlsym(RTLD_NEXT, name), but it always
 * returns the default version of a function, as dlsym() does from glibc 2.36 on. NULL if there is
 * none; then nothing is allocated. Takes the loader's lock only if the definition is an IFUNC.
 */
void *tek__next_definition(const char *name);

/*
 * TEK_REAL(read)(file, bytes, size) calls the next definition of a function. Each place of a call
 * looks it up at its first call.
 */
#define TEK_REAL(name) \
	({ \
		static void *function; \
		void *found = __atomic_load_n(&function, __ATOMIC_RELAXED); \
		if (__builtin_expect(!found, 0)) { \
			found = tek__next_definition(#name); \
			__atomic_store_n(&function, found, __ATOMIC_RELAXED); \
		} \
		(__typeof__(&name))found; \
	})

#endif
