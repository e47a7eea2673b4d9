/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stack_depth KIB [WHAT]: a thread named gas recurses that deep.  WHAT adds:
 *   catch  it has a handler of SIGSEGV on a signal stack of its own, which prints a line, and then
 *          the fault happens again
 *   jump   that handler leaves by siglongjmp(3), and the program goes on
 *   read   instead it has the kernel read a file to so far below it, and prints the result
 *   touch  instead it writes below its stack
 * Compiled with NO_GUARD it has no guard page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sigjmp_buf back;
static const char *what = "";
static char signal_stack[64 << 10];

static void print(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		abort();
}

static void caught(int number)
{
	char here;

	print(&here >= signal_stack && &here < signal_stack + sizeof(signal_stack)
		      ? "on its own stack\n"
		      : "elsewhere\n");
	if (strcmp(what, "jump") == 0)
		siglongjmp(back, 1);
	signal(number, SIG_DFL);
}

__attribute__((noinline)) int dig(int kib)
{
	volatile char frame[1000];

	frame[0] = (char)kib;
	return kib > 0 ? dig(kib - 1) + frame[0] : 0;
}

static void have_handler(void)
{
	stack_t own = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
	struct sigaction action = {.sa_handler = caught, .sa_flags = SA_ONSTACK};

	sigaltstack(&own, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

static void read_below(int kib)
{
	char *below = (char *)__builtin_frame_address(0) - (size_t)kib * 1024;
	int file = open("/dev/zero", O_RDONLY);

	print(read(file, below, 1) == 1 ? "read\n"
	      : errno == EFAULT         ? "EFAULT\n"
					: "another error\n");
}

static void touch_below(void)
{
	pthread_attr_t attr;
	void *low;
	size_t bytes;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_destroy(&attr);
	*(volatile char *)((char *)low - 1) = 1;
}

static void *detect_gas(void *kib)
{
	pthread_setname_np(pthread_self(), "gas");
	if (strcmp(what, "catch") == 0 || strcmp(what, "jump") == 0)
		have_handler();
	if (sigsetjmp(back, 1))
		print("recovered\n");
	else if (strcmp(what, "read") == 0)
		read_below(*(int *)kib);
	else if (strcmp(what, "touch") == 0)
		touch_below();
	else
		dig(*(int *)kib);
	return NULL;
}

static const pthread_attr_t *attributes(void)
{
#ifdef NO_GUARD
	static pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, 0);
	return &attr;
#endif
	return NULL;
}

int main(int argc, char **argv)
{
	int kib = atoi(argv[1]);
	pthread_t thread;

	alarm(60);
	if (argc > 2)
		what = argv[2];
	if (pthread_create(&thread, attributes(), detect_gas, &kib) || pthread_join(thread, NULL))
		return 1;
	print("ended\n");
	return 3;
}
