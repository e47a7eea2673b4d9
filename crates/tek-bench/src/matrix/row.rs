// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of the matrix: what a critical thread waits for.

use clap::ValueEnum;
use tek_advice::Package;

/// What the thread waits for while it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Row {
    /// Nothing but a CPU
    Hogs,
    /// A mutex that a background thread holds again and again
    Mutex,
    /// The first of three mutexes, whose holders wait for each other
    Chain,
    /// A read-write lock that two background threads read
    Rwlock,
    /// A condition variable, whose signalling thread still holds the mutex
    Condvar,
    /// The end of a thread
    Join,
    /// A mutex that does not name its owner, as those of Go and musl
    WordMutex,
    /// A std::sync::Mutex of Rust
    RustMutex,
    /// A mutex that another process holds
    SharedMutex,
    /// The reply of a background thread by a pipe
    Pipe,
    /// The reply of a background thread by a UNIX socket
    Socket,
    /// The reply of another process by D-Bus, over dbus-daemon
    Dbus,
    /// The largest of 10,000 numbers that redis-server sorts
    Redis,
    /// 100 values of 1 KiB of memcached
    Memcached,
    /// A sum over 2,000 rows of a table of mariadbd
    Mariadb,
    /// 800 KB on a disk
    Fsync,
    /// 1 MiB of new memory, beside processes that read more than the machine has
    Memory,
    /// Nothing but a CPU, beside ten times as many hogs
    ManyHogs,
    /// Nothing but a CPU, beside hogs of another user
    UserHogs,
    /// Nothing but a CPU, in a process with 2,000 sleeping threads
    Threads,
    /// A mutex, a read-write lock, a pipe and 800 KB on a disk, beside 2,000 sleeping threads
    All,
}

/// A server, as Debian has it.
pub struct Server {
    pub program: &'static str,
    pub package: Package,
    /// The benchmark's own program with the row, and the package that its build needs; `None`: it
    /// is that of all rows.
    pub client: Option<(&'static str, Package)>,
}

static DBUS: Server = Server {
    program: "dbus-daemon",
    package: Package { names: &[("dbus-daemon", 0)] },
    client: Some(("dependencies-dbus", Package { names: &[("libdbus-1-dev", 0)] })),
};

static REDIS: Server = Server {
    program: "redis-server",
    package: Package { names: &[("redis-server", 0)] },
    client: None,
};

static MEMCACHED: Server =
    Server { program: "memcached", package: Package { names: &[("memcached", 0)] }, client: None };

static MARIADB: Server = Server {
    program: "mariadbd",
    package: Package { names: &[("mariadb-server", 0)] },
    client: Some(("dependencies-mariadb", Package { names: &[("libmariadb-dev", 0)] })),
};

impl Row {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Row::Hogs => "hogs",
            Row::Mutex => "mutex",
            Row::Chain => "chain",
            Row::Rwlock => "rwlock",
            Row::Condvar => "condvar",
            Row::Join => "join",
            Row::WordMutex => "word-mutex",
            Row::RustMutex => "rust-mutex",
            Row::SharedMutex => "shared-mutex",
            Row::Pipe => "pipe",
            Row::Socket => "socket",
            Row::Dbus => "dbus",
            Row::Redis => "redis",
            Row::Memcached => "memcached",
            Row::Mariadb => "mariadb",
            Row::Fsync => "fsync",
            Row::Memory => "memory",
            Row::ManyHogs => "many-hogs",
            Row::UserHogs => "user-hogs",
            Row::Threads => "threads",
            Row::All => "all",
        }
    }

    /// What the thread waits for, for a title.
    pub fn waits_for(self) -> String {
        let help = self.to_possible_value().and_then(|value| Some(value.get_help()?.to_string()));
        let help = help.unwrap_or_default();
        let mut letters = help.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
    }

    /// The dependency that the program has to make.
    pub fn dependency(self) -> &'static str {
        match self {
            Row::Hogs | Row::ManyHogs | Row::UserHogs => "none",
            _ => self.name(),
        }
    }

    /// The server that the thread asks.
    pub fn server(self) -> Option<&'static Server> {
        match self {
            Row::Dbus => Some(&DBUS),
            Row::Redis => Some(&REDIS),
            Row::Memcached => Some(&MEMCACHED),
            Row::Mariadb => Some(&MARIADB),
            _ => None,
        }
    }

    /// Whether other threads than hogs do the background work.
    pub fn has_background(self) -> bool {
        let only_hogs =
            matches!(self, Row::Hogs | Row::Fsync | Row::ManyHogs | Row::UserHogs | Row::Threads);
        let only_a_server = matches!(self, Row::Redis | Row::Memcached | Row::Mariadb);
        !only_hogs && !only_a_server
    }

    /// Whether it has a mutex that could have PTHREAD_PRIO_INHERIT.
    pub fn has_mutex(self) -> bool {
        matches!(self, Row::Mutex | Row::Chain | Row::Condvar | Row::SharedMutex | Row::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_knows_each_row_by_its_name() {
        for row in Row::value_variants() {
            assert_eq!(row.to_possible_value().unwrap().get_name(), row.name());
        }
    }
}
