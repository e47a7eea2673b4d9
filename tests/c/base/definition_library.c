/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries that test_definition.c loads. */
#include <unistd.h>

#ifdef LIKE_TEK
pid_t getpid(void)
{
	return -1;
}
#else
int tek_test_variable = 1;

int tek_test_function(void);
int tek_test_function(void)
{
	return (int)getpid();
}
#endif
