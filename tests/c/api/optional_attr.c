/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sched_setattr() of glibc 2.41 in a program that is not linked with TEK: see optional.c.
 * Skipped if the headers of the C library do not declare it.
 */
#define TEK_OPTIONAL
#include <tek/tek.h>

#include <stdio.h>

#ifdef TEK_OPTIONAL_ATTR

static int set(int nice)
{
	struct sched_attr attr = {
		.size = sizeof(attr), .sched_policy = SCHED_TEK, .sched_nice = nice};

	return sched_setattr(0, &attr, 0);
}

int main(void)
{
	const int good = set(-5), bad = set(20);

	printf("nice -5: %d, nice 20: %d\n", good, bad);
	return good == 0 && bad == -1 ? 0 : 1;
}

#else

int main(void)
{
	puts("glibc before 2.41 has no sched_setattr()");
	return 77; /* skipped */
}

#endif
