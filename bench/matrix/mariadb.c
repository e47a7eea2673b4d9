/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The row in which touch asks mariadbd, by its client library. */
#include "row.h"
#include "server.h"

#include "../response/clock.h"

#include <err.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>

static MYSQL client;

static void must_query(const char *text)
{
	if (mysql_query(&client, text))
		errx(EXIT_FAILURE, "mariadbd refuses '%s': %s", text, mysql_error(&client));
	mysql_free_result(mysql_store_result(&client));
}

static void mariadb_prepare(void)
{
	const struct server *mariadb = server_prepare();
	char data[80], socket[96];
	uint64_t begin = clock_ns();
	snprintf(data, sizeof(data), "--datadir=%s", mariadb->directory);
	snprintf(socket, sizeof(socket), "--socket=%s", mariadb->socket);
	server_start((const char *[]){"mariadbd", "--no-defaults", "--user=root", data, socket,
				      "--skip-networking", "--skip-grant-tables",
				      "--innodb-buffer-pool-size=8M", NULL});
	for (;;) {
		mysql_init(&client);
		if (mysql_real_connect(&client, NULL, "root", NULL, NULL, 0, mariadb->socket, 0))
			break;
		if (!server_await(begin))
			errx(EXIT_FAILURE, "mariadbd does not listen: %s", mysql_error(&client));
		mysql_close(&client);
	}
	must_query("CREATE DATABASE matrix");
	must_query("USE matrix");
	must_query("CREATE TABLE numbers (id INT PRIMARY KEY, pad VARCHAR(100)) ENGINE=InnoDB");
	must_query("INSERT INTO numbers SELECT seq, REPEAT('x', 100) FROM seq_1_to_2000");
	server_hide();
}

static void mariadb_wait(void)
{
	must_query("SELECT COUNT(*), SUM(LENGTH(pad)) FROM numbers");
}

const struct row mariadb_rows[] = {
	{.name = "mariadb", .prepare = mariadb_prepare, .wait = mariadb_wait},
	{.name = NULL},
};
