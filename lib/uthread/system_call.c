/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * syscall(2) and clock_gettime(2) for the engine itself. The symbols of these names are those of
 * libtek-uthread.so (preload/uthread/), which watch the program's calls. So the libraries are
 * compiled with these names as macros for the functions here. Other processors have no such
 * symbols.
 */
#if defined(__x86_64__) || defined(__aarch64__)

#include "base/definition.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long call(long number, const long *argument)
{
#if defined(__x86_64__)
	long result;
	register long d __asm__("r10") = argument[3];
	register long e __asm__("r8") = argument[4];
	register long f __asm__("r9") = argument[5];
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(argument[0]), "S"(argument[1]), "d"(argument[2]),
			   "r"(d), "r"(e), "r"(f)
			 : "rcx", "r11", "memory");
	return result;
#else
	register long nr __asm__("x8") = number;
	register long a __asm__("x0") = argument[0];
	register long b __asm__("x1") = argument[1];
	register long c __asm__("x2") = argument[2];
	register long d __asm__("x3") = argument[3];
	register long e __asm__("x4") = argument[4];
	register long f __asm__("x5") = argument[5];
	__asm__ volatile("svc #0"
			 : "+r"(a)
			 : "r"(nr), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f)
			 : "memory");
	return a;
#endif
}

/* As in the C library six words are read and passed to the kernel, used or not. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	long argument[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	const long result = call(number, argument);
	if (result < 0 && result > -4096) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/* The C library's function asks the kernel's vDSO. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	static void *function;
	int (*get)(clockid_t, struct timespec *);
	void *found = __atomic_load_n(&function, __ATOMIC_RELAXED);

	if (!found) {
		found = tek__c_library_function("clock_gettime");
		__atomic_store_n(&function, found, __ATOMIC_RELAXED);
	}
	if (!found)
		return (int)syscall(SYS_clock_gettime, clock, time);
	memcpy(&get, &found, sizeof(get));
	return get(clock, time);
}

#endif
