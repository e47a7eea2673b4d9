// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notices to systemd, or to another starter that set NOTIFY_SOCKET: sd_notify(3).
use std::env;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The bounds for an interval from the environment.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(3600);

/// The socket of the starter; without one no notices are sent.
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// From the environment.
    pub fn from_environment() -> Self {
        let own = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let pid = u64::from(std::process::id());
        let meant = own("WATCHDOG_PID").is_none_or(|watched| watched == pid);
        let watchdog = own("WATCHDOG_USEC").filter(|&usec| meant && usec > 0);
        Self {
            to: env::var_os("NOTIFY_SOCKET").and_then(connect),
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// tekd serves.
    pub fn ready(&self) {
        self.inform("READY=1");
    }

    /// The configuration is read again; `ready` ends it.
    pub fn reloading(&self, now_ns: u64) {
        self.inform(&format!("RELOADING=1\nMONOTONIC_USEC={}", now_ns / 1000));
    }

    /// tekd ends.
    pub fn stopping(&self) {
        self.inform("STOPPING=1\nSTATUS=Giving everything back");
    }

    /// The interval of notices that tekd is well; `None`: the watchdog wants none.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| (watchdog / 2).clamp(SHORTEST, LONGEST))
    }

    /// A thread is critical: starts the watchdog.
    pub fn watch(&self) {
        if let Some(watchdog) = self.watchdog {
            let usec = watchdog.as_micros();
            self.inform(&format!("WATCHDOG_USEC={usec}\nWATCHDOG=1\nSTATUS=Threads are critical"));
        }
    }

    /// tekd is well.
    pub fn is_well(&self) {
        self.inform("WATCHDOG=1");
    }

    /// No thread is critical: tekd sleeps, and the watchdog with it.
    pub fn rest(&self) {
        if self.watchdog.is_some() {
            self.inform("WATCHDOG_USEC=0\nSTATUS=Nothing is critical");
        }
    }

    fn inform(&self, text: &str) {
        if let Some((socket, to)) = &self.to {
            // A starter that does not receive misses the notice.
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }
}

fn connect(address: OsString) -> Option<(UnixDatagram, SocketAddr)> {
    let to = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(&address),
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, to.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receives(address: &SocketAddr, name: &str) {
        let ear = UnixDatagram::bind_addr(address).unwrap();
        ear.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let watchdog = Some(Duration::from_secs(30));
        let notify = Notify { to: connect(name.into()), watchdog };
        notify.ready();
        notify.rest();
        notify.watch();
        let mut buffer = [0; 200];
        let mut received = || {
            let length = ear.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        assert!(received().starts_with("READY=1"));
        assert!(received().starts_with("WATCHDOG_USEC=0\n"));
        assert!(received().starts_with("WATCHDOG_USEC=30000000\nWATCHDOG=1\n"));
    }

    #[test]
    fn the_starter_is_notified_at_a_path_and_at_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        receives(&SocketAddr::from_pathname(&path).unwrap(), path.to_str().unwrap());
        let name = format!("tekd-test-{}", std::process::id());
        receives(&SocketAddr::from_abstract_name(&name).unwrap(), &format!("@{name}"));
    }

    #[test]
    fn a_watchdog_that_makes_no_sense_does_not_keep_tekd_awake() {
        for usec in [1, u64::MAX] {
            let notify = Notify { to: None, watchdog: Some(Duration::from_micros(usec)) };
            assert!((SHORTEST..=LONGEST).contains(&notify.interval().unwrap()));
        }
    }

    #[test]
    fn without_a_listener_nothing_happens() {
        Notify { to: None, watchdog: None }.ready();
        Notify { to: connect("/nowhere/at/all".into()), watchdog: None }.ready();
        assert!(connect("x".into()).is_none());
    }
}
