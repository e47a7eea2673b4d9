/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Commits of SQLite.  The library is loaded at run time, so that TEK is built without it; its
 * functions are declared here, which have not changed since SQLite 3.5.
 */
#include "file_ops.h"

#include <dlfcn.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SKIPPED 77

static void *database;
static int (*execute)(void *, const char *, int (*)(void *, int, char **, char **), void *,
		      char **);
static const char *(*message)(void *);

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);
	if (!found)
		errx(SKIPPED, "%s", dlerror());
	return found;
}

static void run(const char *statement)
{
	if (execute(database, statement, NULL, NULL, NULL))
		errx(EXIT_FAILURE, "%s: %s", statement, message(database));
}

static void open_database(struct file_ops *ops, const char *journal)
{
	char path[4096], statement[100];
	void *library = dlopen("libsqlite3.so.0", RTLD_NOW);

	if (!library)
		errx(SKIPPED, "%s (Debian: libsqlite3-0)", dlerror());
	int (*open)(const char *, void **) = symbol(library, "sqlite3_open");
	execute = symbol(library, "sqlite3_exec");
	message = symbol(library, "sqlite3_errmsg");
	snprintf(path, sizeof(path), "%s/%s.db", ops->directory, ops->name);
	unlink(path);
	if (open(path, &database))
		errx(EXIT_FAILURE, "%s: %s", path, message(database));
	snprintf(statement, sizeof(statement), "PRAGMA journal_mode=%s", journal);
	run(statement);
	run("PRAGMA synchronous=FULL");
	run("CREATE TABLE answers (turn INTEGER, text BLOB)");
}

void sqlite_open_wal(struct file_ops *ops)
{
	open_database(ops, "WAL");
}

void sqlite_open_rollback(struct file_ops *ops)
{
	open_database(ops, "DELETE");
}

void sqlite_commit(struct file_ops *ops, uint64_t iteration)
{
	char statement[100];

	snprintf(statement, sizeof(statement), "INSERT INTO answers VALUES (%llu, zeroblob(%zu))",
		 (unsigned long long)iteration, ops->bytes > 2000 ? (size_t)2000 : ops->bytes);
	run(statement);
}
