/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with its own read(), qsort() and getenv(), which are not those of POSIX. */
#include <stdio.h>
#include <threads.h>

/* The next number of standard input. */
int read(void)
{
	int number = 0;
	return scanf("%d", &number) == 1 ? number : 0;
}

/* The greatest of three numbers. */
int qsort(int a, int b, int c)
{
	int most = a > b ? a : b;
	return most > c ? most : c;
}

int getenv(void)
{
	static int calls;
	return ++calls;
}

static int work(void *sum)
{
	for (int i = 0; i < 5; i++)
		*(int *)sum += read();
	return 0;
}

int main(void)
{
	int sum = 0, calls = 0;
	thrd_t thread;

	thrd_create(&thread, work, &sum);
	thrd_join(thread, NULL);
	for (int i = 0; i < 7; i++)
		calls = getenv();
	printf("sum %d, sorted %d, getenv %d\n", sum, qsort(1, 3, 2), calls);
	return 0;
}
