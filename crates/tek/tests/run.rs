// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tek run` is invisible to the program and its caller. These tests need no libtek.so: they
//! preload an empty library.
mod common;

use common::*;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

#[test]
fn every_exit_status_is_the_programs() {
    for status in 0..=255 {
        let ended = sh(&format!("exit {status}")).status().unwrap();
        assert_eq!(ended.code(), Some(status));
    }
}

#[test]
fn tek_dies_by_the_signal_that_killed_the_program() {
    let deadly = (1..=64).filter(|n| {
        // Stops, continues, is ignored, or is the C library's own.
        let name = Signal::try_from(*n);
        let harmless = [
            Signal::SIGSTOP,
            Signal::SIGTSTP,
            Signal::SIGTTIN,
            Signal::SIGTTOU,
            Signal::SIGCONT,
            Signal::SIGCHLD,
            Signal::SIGURG,
            Signal::SIGWINCH,
        ];
        !name.is_ok_and(|name| harmless.contains(&name)) && ![32, 33].contains(n)
    });
    for number in deadly {
        // dash knows no names of real-time signals, and its builtin takes numbers.
        let mut command = sh(&format!("ulimit -c 0; kill -{number} $$; sleep 20"));
        let ended = command.stderr(Stdio::null()).status().unwrap();
        assert_eq!(ended.signal(), Some(number), "{ended:?}");
    }
}

#[test]
fn a_program_that_is_not_there_or_not_executable_has_the_usual_status() {
    let output = under_tek(["no-such-program-anywhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(stderr(&output), "tek: cannot run no-such-program-anywhere: not found\n");
    let output = under_tek(["/etc/passwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(stderr(&output).starts_with("tek: cannot run /etc/passwd: Permission denied"));
    assert_eq!(under_tek(["/"]).output().unwrap().status.code(), Some(126));
}

#[test]
fn a_missing_interpreter_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    // Written by another process: children that other tests fork meanwhile would inherit a
    // descriptor open for writing, and exec of such a file fails with ETXTBSY.
    let made = "printf '#!/no/such/interpreter\\n' > \"$1\" && chmod +x \"$1\"";
    assert!(Command::new("sh").args(["-c", made, "sh"]).arg(&script).status().unwrap().success());
    let output = under_tek([&script]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("its interpreter /no/such/interpreter does not exist"));
}

#[test]
fn without_its_library_tek_names_the_cure_and_starts_nothing() {
    let mut command = sh("echo started");
    let output = command.env("TEK_LIBRARY", "/no/such/libtek.so").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(output.stdout, b"");
    let message = stderr(&output);
    assert!(
        message.contains("/no/such/libtek.so") && message.contains("make install"),
        "{message}"
    );
}

#[test]
fn a_library_path_that_the_loader_would_split_is_refused() {
    let dir = tempfile::Builder::new().prefix("with space").tempdir().unwrap();
    let copy = dir.path().join("libtek.so");
    fs::copy(library(), &copy).unwrap();
    let output = sh("echo started").env("TEK_LIBRARY", copy).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
    assert!(stderr(&output).contains("LD_PRELOAD cannot hold a path with a space"));
}

#[test]
fn an_option_that_cannot_be_meant_starts_nothing() {
    let bad = [
        ["--critical", "[ab"],
        ["--critical", "a,b"],
        ["--critical", "ui=20"],
        ["--budget", "2s/1s"],
        ["--budget", "much"],
        ["--rt-range", "49-10"],
        ["--rt-range", "0-99"],
        ["--no-such-option", "x"],
    ];
    for [option, value] in bad {
        let output = tek().args(["run", option, value, "echo", "started"]).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
        assert!(stderr(&output).contains(option), "{}", stderr(&output));
    }
}

#[test]
fn options_of_the_program_are_the_programs() {
    let output = tek().args(["run", "echo", "--report", "-x", "--", "--help"]).output().unwrap();
    assert_eq!(output.stdout, b"--report -x -- --help\n");
}

#[test]
fn arguments_pass_whatever_their_bytes() {
    let odd = [OsString::from_vec(vec![0xff, 0xfe, b' ', b'\n']), OsString::new()];
    let mut command = under_tek(["printf", "<%s>"]);
    let output = command.args(&odd).output().unwrap();
    assert_eq!(output.stdout, b"<\xff\xfe \n><>");
}

#[test]
fn the_standard_streams_pass_untouched() {
    let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let mut command = sh("cat; cat /dev/null >&2; printf 'a\\200b' >&2");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.stdout == bytes);
    assert_eq!(output.stderr, b"a\x80b");
}

/// Programs that print what they inherited: signal mask and dispositions, descriptors, limits,
/// nice value, directory, and the environment in its order.
const PROBES: [&[&str]; 4] = [
    &["grep", "-E", "^(Sig(Blk|Ign|Cgt)|NoNewPrivs|Seccomp):", "/proc/self/status"],
    &["find", "/proc/self/fd", "-maxdepth", "1", "-type", "l", "-printf", "%f -> %l\n"],
    &["sh", "-c", "ulimit -a; nice; pwd; umask"],
    &["env"],
];

/// Prepares processes by `prepare`, and compares the output of the probes with and without tek.
fn probe_alike(prepare: impl Fn(&mut Command)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let run = |mut command: Command| {
        // Not a pipe: its number would differ.
        let path = dir.path().join("out");
        command.env("TEK_LIBRARY", library()).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(fs::File::create(&path).unwrap());
        prepare(&mut command);
        command.status().unwrap();
        fs::read_to_string(path).unwrap()
    };
    let mut printed = String::new();
    for probe in PROBES {
        let mut plain = Command::new(probe[0]);
        plain.args(&probe[1..]);
        let plain = run(plain);
        let with_tek = run(under_tek(probe));
        // Ignores what tek is there to add, and find's own descriptors, because their path has its
        // pid.
        let compared = |text: &str| {
            let ours = ["LD_PRELOAD=", "TEK_EVENTS=", "TEK_RUN_DIR="];
            let retained = |line: &&str| {
                !ours.iter().any(|name| line.starts_with(name)) && !line.contains(" -> /proc/")
            };
            text.lines().filter(retained).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(compared(&with_tek), compared(&plain));
        printed += &plain;
    }
    printed
}

#[test]
fn the_program_inherits_what_tek_inherited() {
    assert!(probe_alike(|_| {}).contains("SigBlk"));
}

#[test]
fn ignored_and_blocked_signals_stay_so_and_default_ones_too() {
    for (ignored, bits) in [(libc::SIGPIPE, "1000"), (libc::SIGCHLD, "10000"), (libc::SIGHUP, "1")]
    {
        let probe = probe_alike(|command| {
            // SAFETY: async-signal-safe calls only.
            unsafe {
                command.pre_exec(move || {
                    libc::signal(ignored, libc::SIG_IGN);
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigaddset(&mut set, libc::SIGUSR2);
                    libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
                    Ok(())
                });
            }
        });
        let field = |name| probe.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(field("SigIgn").ends_with(bits), "{}", field("SigIgn"));
        assert!(field("SigBlk").ends_with("0800"), "{}", field("SigBlk"));
    }
}

#[test]
fn closed_and_additional_descriptors_stay_as_they_were() {
    for closed in [vec![0], vec![2], vec![0, 2]] {
        let extra = fs::File::open("/dev/zero").unwrap();
        let probe = probe_alike(|command| {
            let (closed, extra) = (closed.clone(), extra.as_raw_fd());
            // SAFETY: async-signal-safe calls only; the descriptors are the child's.
            unsafe {
                command.pre_exec(move || {
                    libc::dup2(extra, 57);
                    closed.iter().for_each(|fd| {
                        libc::close(*fd);
                    });
                    Ok(())
                });
            }
        });
        assert!(probe.contains("57 -> /dev/zero"), "{probe}");
    }
}

#[test]
fn a_status_arrives_although_sigchld_was_ignored() {
    let mut command = sh("exit 7");
    // SAFETY: one async-signal-safe call.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    assert_eq!(command.status().unwrap().code(), Some(7));
}

#[test]
fn signals_sent_to_tek_reach_the_program_once() {
    let count = "n=0; trap 'n=$((n+1))' TERM HUP INT QUIT USR1 USR2 ALRM; \
         trap 'echo $n; exit' CONT; echo ready; while :; do sleep 0.02; done";
    for number in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT]
        .into_iter()
        .chain([Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM])
    {
        let (mut child, mut lines) = start(sh(count));
        assert_eq!(line(&mut lines), "ready");
        signal(&child, number);
        std::thread::sleep(Duration::from_millis(100));
        signal(&child, Signal::SIGCONT);
        assert_eq!(line(&mut lines), "1", "{number}");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_signal_that_arrives_while_tek_starts_is_not_lost() {
    for delay in 0..20 {
        let (mut child, _) = start(under_tek(["sleep", "20"]));
        std::thread::sleep(Duration::from_micros(delay * 400));
        signal(&child, Signal::SIGTERM);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}

#[test]
fn an_alarm_set_before_tek_kills_the_program() {
    let mut command = under_tek(["sleep", "20"]);
    // SAFETY: one async-signal-safe call; the alarm outlives exec.
    unsafe {
        command.pre_exec(|| {
            libc::alarm(1);
            Ok(())
        });
    }
    let ended = command.status().unwrap();
    assert_eq!(ended.signal(), Some(libc::SIGALRM));
}

#[test]
fn what_the_program_sends_to_its_group_does_not_come_back_to_it() {
    let script = "n=0; trap 'n=$((n+1))' USR1; kill -USR1 0; sleep 0.1; echo $n";
    let mut command = sh(script);
    command.process_group(0);
    assert_eq!(command.output().unwrap().stdout, b"1\n");
}

#[test]
fn tek_stops_and_continues_with_the_program() {
    for stop in ["kill -STOP $$", "kill -TSTP $$"] {
        let mut command = sh(&format!("echo $$; {stop}; echo on"));
        // A group of its own under this process, so that it is no orphan and can be stopped.
        command.process_group(0);
        let (mut child, mut lines) = start(command);
        let program = line(&mut lines).parse().unwrap();
        wait_until("tek stops", || state_of(child.id()) == 'T');
        assert_eq!(state_of(program), 'T');
        signal(&child, Signal::SIGCONT);
        assert_eq!(line(&mut lines), "on");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_continued_group_runs_the_programs_handler_once() {
    let script = "n=0; trap 'n=$((n+1))' CONT; echo $$; kill -STOP $$; sleep 0.2; echo $n";
    let mut once = 0;
    for _ in 0..5 {
        let mut command = sh(script);
        command.process_group(0);
        let (mut child, mut lines) = start(command);
        line(&mut lines);
        wait_until("tek stops", || state_of(child.id()) == 'T');
        kill(Pid::from_raw(-(child.id() as i32)), Signal::SIGCONT).unwrap();
        once += usize::from(line(&mut lines) == "1");
        child.wait().unwrap();
    }
    // tek may win the race against the kernel's own SIGCONT to the program, rarely.
    assert!(once >= 4, "only {once} of 5");
}

#[test]
fn the_program_ends_when_tek_is_killed_and_what_it_started_goes_on() {
    let mut command = sh("exec 3<&0; (read line <&3; echo still here) & echo $$; wait");
    command.stdin(Stdio::piped());
    let (mut child, mut lines) = start(command);
    // wait() would close it, and its reader must go on after that.
    let stdin = child.stdin.take();
    let program = line(&mut lines);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    let status = PathBuf::from(format!("/proc/{program}/status"));
    wait_until("the program is dead", || {
        fs::read_to_string(&status).map_or(true, |text| text.contains("State:\tZ"))
    });
    drop(stdin);
    assert_eq!(line(&mut lines), "still here");
}

#[test]
fn what_a_killed_tek_left_behind_is_removed_by_the_next_run() {
    let (mut child, mut lines) = start(sh("echo $TEK_EVENTS; sleep 20 & wait"));
    let events = PathBuf::from(line(&mut lines));
    assert!(events.exists());
    child.kill().unwrap();
    // Before it is reaped it still has its pid, and no tek of another test takes its directory for
    // one left behind.
    wait_until("tek is dead", || state_of(child.id()) == 'Z');
    assert!(events.exists());
    child.wait().unwrap();
    assert!(sh("test -f $TEK_EVENTS").status().unwrap().success());
    // A tek of another test may be removing it at the same time.
    wait_until("it is removed", || !events.parent().unwrap().exists());
}

#[test]
fn an_event_file_is_private_and_gone_after_the_run() {
    let output = sh("echo $TEK_EVENTS; stat -c %a $TEK_EVENTS").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (path, mode) = text.trim_end().split_once('\n').unwrap();
    assert_eq!(mode, "600");
    assert!(!Path::new(path).parent().unwrap().exists());
}

/// Appends an event as the library would, from a program under tek.
fn event_file(kind: u16, change: impl Fn(&mut tek_abi::Event)) -> tempfile::NamedTempFile {
    use zerocopy::IntoBytes;
    let mut event = tek_abi::Event::blank(kind);
    event.program[..6].copy_from_slice(b"fridge");
    event.thread[..5].copy_from_slice(b"touch");
    change(&mut event);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(event.as_bytes()).unwrap();
    file
}

#[test]
fn events_are_reported_while_the_program_runs_and_once() {
    let event = event_file(tek_abi::EVENT_NOT_COVERED, |event| {
        event.text[..20].copy_from_slice(b"is statically linked");
    });
    let path = event.path().display();
    let mut command = sh(&format!("cat {path} {path} >> $TEK_EVENTS; read line"));
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    assert_eq!(line(&mut messages), "tek: fridge is statically linked: it runs, but not under TEK");
    drop(child.stdin.take());
    let mut rest = String::new();
    messages.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    child.wait().unwrap();
}

#[test]
fn the_report_has_fast_threads_and_patterns_that_fitted_none() {
    let event = event_file(tek_abi::EVENT_SUMMARY, |event| {
        event.value = [2_500_000_000, 3, 17, 1_000_000];
    });
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("report.json");
    let mut command = tek();
    command.args(["run", "--critical=touch", "--critical=gas", "--report", "--report-json"]);
    command.arg(&json).args(["sh", "-c"]);
    command.arg(format!("cat {} >> $TEK_EVENTS; exit 4", event.path().display()));
    let output = command.output().unwrap();
    assert_eq!(output.status, ExitStatus::from_raw(4 << 8));
    let text = stderr(&output);
    assert!(text.contains("touch") && text.contains("2.500s") && text.contains("17"), "{text}");
    assert!(text.contains("no thread had a name that fits --critical 'gas'"), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["end"]["status"], 4);
    assert_eq!(report["threads"][0]["fast_ns"], 2_500_000_000u64);
    assert_eq!(report["unmatched"], serde_json::json!(["gas"]));
}

#[test]
fn the_library_is_preloaded_first_and_gets_the_options() {
    let mut command = tek();
    command.args(["run", "--critical=ui*=-5", "--critical=gas", "--budget=1ms/10ms"]);
    command.args(["--rt-range=5-6", "--no-follow-marked", "sh", "-c"]);
    command.arg("echo \"$LD_PRELOAD $TEK_RULES\" $TEK_BUDGET $TEK_RT_RANGE $TEK_FOLLOW_MARKED");
    let output = command.env("LD_PRELOAD", "").env_remove("TEK_CRITICAL").output().unwrap();
    let expected = format!(
        "{} thread=gas,critical=1,priority=0,source=--critical gas;\
         thread=ui*,critical=1,priority=-5,source=--critical ui*=-5 1ms/10ms 5-6 0\n",
        library().display()
    );
    assert_eq!(output.stdout.as_bstr(), expected.as_bytes().as_bstr());
}

#[test]
fn the_option_takes_the_place_of_the_variable() {
    let seen = |options: &[&str]| {
        let mut command = tek();
        command.arg("run").args(options).args(["sh", "-c", "echo \"$TEK_CRITICAL $TEK_RULES\""]);
        let output = command.env("TEK_CRITICAL", "ui").env("TEK_RULES", "").output().unwrap();
        output.stdout.as_bstr()
    };
    assert_eq!(seen(&[]), "ui \n");
    assert_eq!(
        seen(&["--critical=gas"]),
        " thread=gas,critical=1,priority=0,source=--critical gas\n"
    );
    assert_eq!(seen(&["--role=a=b"]), "ui thread=a,role=b,source=--role a=b\n");
}

/// Byte strings that read well in a failed assertion.
trait AsBstr {
    fn as_bstr(&self) -> String;
}

impl<T: AsRef<[u8]>> AsBstr for T {
    fn as_bstr(&self) -> String {
        OsStr::from_bytes(self.as_ref()).to_string_lossy().into_owned()
    }
}
