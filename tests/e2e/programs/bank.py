# SPDX-License-Identifier: MIT OR Apache-2.0
"""Eight threads move money between the accounts of one SQLite database; the sum must stay."""
import random
import sqlite3
import sys
import threading

THREADS = 8
TRANSFERS = 40
ACCOUNTS = 10

path = sys.argv[1]
setup = sqlite3.connect(path)
setup.execute("PRAGMA journal_mode = WAL")
setup.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, money INTEGER)")
setup.execute("CREATE TABLE transfer (who INTEGER, amount INTEGER)")
setup.executemany("INSERT INTO account VALUES (?, 1000)", [(n,) for n in range(ACCOUNTS)])
setup.commit()
problems = []


def work(subject):
    pick = random.Random(subject)
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    try:
        for _ in range(TRANSFERS):
            one, other = pick.sample(range(ACCOUNTS), 2)
            amount = pick.randrange(1, 50)
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE account SET money = money - ? WHERE id = ?", (amount, one))
            database.execute("UPDATE account SET money = money + ? WHERE id = ?", (amount, other))
            database.execute("INSERT INTO transfer VALUES (?, ?)", (subject, amount))
            database.execute("COMMIT")
    except sqlite3.Error as error:
        problems.append(repr(error))
    database.close()


threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(problems, setup.execute("PRAGMA integrity_check").fetchall())
print(setup.execute("SELECT count(*), sum(money) FROM account").fetchall())
print(setup.execute("SELECT who, count(*), sum(amount) FROM transfer GROUP BY who").fetchall())
print(setup.execute("SELECT id, money FROM account ORDER BY id").fetchall())
