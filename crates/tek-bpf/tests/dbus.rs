// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events for a critical program that calls a D-Bus service: over the bus daemon.
#![cfg(loads)]
mod common;

use common::{events_until, events_within, of_task, set_priority, watching, PATIENCE};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tek_bpf::{Event, What};

const CONFIGURATION: &str = r#"
<busconfig>
  <type>session</type>
  <listen>unix:tmpdir=/tmp</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"#;

/// A service that takes half a second for each answer, with the reference implementation.
const SERVICE: &str = r"
import ctypes, time
bus = ctypes.CDLL('libdbus-1.so.3')
for name in ('bus_get', 'connection_pop_message', 'message_new_method_return'):
    getattr(bus, 'dbus_' + name).restype = ctypes.c_void_p
connection = ctypes.c_void_p(bus.dbus_bus_get(0, None))
bus.dbus_bus_request_name(connection, b'tek.test.Service', 4, None)
print('ready', flush=True)
while bus.dbus_connection_read_write(connection, -1):
    while message := bus.dbus_connection_pop_message(connection):
        message = ctypes.c_void_p(message)
        if bus.dbus_message_get_type(message) == 1:
            time.sleep(0.5)
            answer = ctypes.c_void_p(bus.dbus_message_new_method_return(message))
            bus.dbus_connection_send(connection, answer, None)
            bus.dbus_connection_flush(connection)
";

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program and returns its first line.
fn start(command: &mut Command) -> (Ended, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Ended(child), line.trim().to_owned())
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}

fn has_library() -> bool {
    let load = ["-c", "import ctypes; ctypes.CDLL('libdbus-1.so.3')"];
    let loaded = Command::new("python3").args(load).stderr(Stdio::null()).status();
    loaded.is_ok_and(|status| status.success())
}

/// The processes that a task waits for.
fn owners(events: &[Event], tid: i32) -> Vec<i32> {
    let owner = |what: &What| match what {
        What::AnswerAwaited { owner, .. } => *owner,
        _ => None,
    };
    of_task(events, tid).iter().filter_map(owner).collect()
}

fn start_bus(directory: &Path) -> (Ended, String) {
    let configuration = directory.join("bus.conf");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let mut option = OsStr::new("--config-file=").to_owned();
    option.push(&configuration);
    let mut daemon = Command::new("dbus-daemon");
    daemon.arg(option).args(["--nofork", "--print-address"]).stderr(Stdio::null());
    start(&mut daemon)
}

#[test]
#[ignore = "needs root"]
fn a_call_over_the_bus_is_followed_to_the_service() {
    if !["dbus-daemon", "dbus-send", "python3"].iter().all(|name| has(name)) || !has_library() {
        println!("skipped: needs dbus-daemon, dbus-send, python3 and libdbus");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (daemon, address) = start_bus(directory.path());
    let with_bus = |command: &mut Command| {
        command.env("DBUS_SESSION_BUS_ADDRESS", &address);
    };
    let mut service = Command::new("python3");
    with_bus(service.args(["-c", SERVICE]));
    let (service, ready) = start(&mut service);
    assert_eq!(ready, "ready");
    let (mut kthreads, _watcher) = watching();
    let mut client = Command::new("dbus-send");
    with_bus(client.args(["--session", "--print-reply", "--dest=tek.test.Service", "/", "a.b.C"]));
    client.stdout(Stdio::null());
    // SAFETY: the child makes one system call before it executes the program.
    unsafe {
        client.pre_exec(|| {
            set_priority(30);
            Ok(())
        });
    }
    let mut client = Ended(client.spawn().unwrap());
    let [client_id, daemon_id, service_id] = [&client, &daemon, &service].map(|p| p.0.id() as i32);
    let is_followed = |events: &[Event]| owners(events, daemon_id).contains(&service_id);
    let mut events = events_until(&mut kthreads, is_followed);
    assert!(is_followed(&events), "{daemon_id} {service_id}: {events:?}");
    assert!(owners(&events, client_id).contains(&daemon_id), "{events:?}");
    let of_daemon = of_task(&events, daemon_id);
    assert!(of_daemon.iter().all(|what| what.member().is_some_and(|m| m.via)), "{of_daemon:?}");
    assert!(client.0.wait().unwrap().success());
    events.extend(events_within(&mut kthreads, PATIENCE.min(Duration::from_secs(2)), |_| false));
    for tid in [client_id, daemon_id] {
        let change = |what: &What| match what {
            What::AnswerAwaited { .. } => 1,
            What::AnswerEnded { .. } => -1,
            _ => 0,
        };
        let reported = of_task(&events, tid);
        assert_eq!(reported.iter().map(change).sum::<i32>(), 0, "{reported:?}");
    }
}
