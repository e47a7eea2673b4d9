/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The next definitions of functions after ours.
 */
#ifndef TEK_BASE_NEXT_H
#define TEK_BASE_NEXT_H

/*
 * The function of a name in the next file that defines it, in the order in which the loader loaded
 * them: that of another library which is preloaded after ours, or the C library's.  As
 * dlsym(RTLD_NEXT, name), with these differences: it is the default version of a function, which
 * before glibc 2.36 dlsym() does not return; and if there is none, NULL is returned and nothing is
 * allocated.  Takes the loader's lock only if the definition is an IFUNC.
 */
void *tek__next_definition(const char *name);

/*
 * TEK_REAL(read)(file, bytes, size): the next definition of a function after ours.  Looked up at
 * the first call from each place, so it works before any constructor has run.
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
