/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library with thread-local variables, which test_uthread_tls loads.  With -DIN_BLOCK they are in
 * the block that each thread has from its start, else elsewhere.
 */
#ifdef IN_BLOCK
#define MODEL "initial-exec"
#else
#define MODEL "global-dynamic"
#endif

static __thread int with_value __attribute__((tls_model(MODEL))) = 42;
static __thread int zero[100] __attribute__((tls_model(MODEL)));
static __thread int set_by_constructor __attribute__((tls_model(MODEL)));

static int seen_by_constructor;
static volatile int seven = 7; /* else a compiler would make it the first value */

static __attribute__((constructor)) void construct(void)
{
	seen_by_constructor = zero[0] + zero[99];
	set_by_constructor = seven;
}

int *tls_with_value(void);
int *tls_with_value(void)
{
	return &with_value;
}

int *tls_zero(void);
int *tls_zero(void)
{
	return &zero[99];
}

int *tls_set_by_constructor(void);
int *tls_set_by_constructor(void)
{
	return &set_by_constructor;
}

int constructor_saw(void);
int constructor_saw(void)
{
	return seen_by_constructor;
}
