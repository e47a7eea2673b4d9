/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * syscall(2) for the engine itself.  The symbol of that name is one of libtek-uthread.so's own
 * (preload/uthread/syscall.c), and looks at what the program does; so the libraries are compiled with
 * syscall as a macro for this function.  Elsewhere than on these processors there is no such symbol.
 */
#if defined(__x86_64__) || defined(__aarch64__)

#include <errno.h>
#include <stdarg.h>
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

long syscall(long number, ...)
{
	long argument[6];
	va_list list;

	/* As the C library does: the kernel takes six words, used or not. */
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

#endif
