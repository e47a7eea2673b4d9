"""DuckDB: an aggregate over a million rows in four threads. Prints the sum."""

import duckdb

base = duckdb.connect()
base.execute("SET threads = 4")
base.execute("CREATE TABLE t AS SELECT i, i % 7 AS kind FROM range(1000000) r(i)")
rows = base.execute("SELECT kind, sum(i) FROM t GROUP BY kind").fetchall()
print("sum", sum(int(total) for _, total in rows))
