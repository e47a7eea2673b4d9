/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the table (uthread/table.h) says of threads of pthread programs: they are there from their creation to their end. */
#ifndef TEK_UTHREAD_POSIX_TELLER_H
#define TEK_UTHREAD_POSIX_TELLER_H

#include "uthread/table.h"

/* When the roles are known: opens the table. */
void tek__posix_table_open(void);

#endif
