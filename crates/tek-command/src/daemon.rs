// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection to tekd, for the commands that send it requests.
use nix::errno::Errno;
use nix::sys::socket::{
    connect, recvmsg, send, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned,
    MsgFlags, SockFlag, SockType, UnixAddr,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use tek_abi::{printable, MessageError, Reply, Request, SOCKET_PATH, TELL_REFUSED};
use tek_advice::{as_root, quoted, tool_as_root};
use zerocopy::IntoBytes;

/// tekd answers in microseconds, but a device can be busy.
const PATIENCE_S: i64 = 5;

/// Most packets that are skipped while waiting for a reply.
const MOST_PASSED_OVER: usize = 1000;

/// Why tekd did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No process listens at this path.
    #[error(
        "tekd does not run, or not at {path}; where it listens elsewhere, set TEK_SOCKET to that \
         path; to start it{start}",
        path = .0.display(),
        start = start(.0)
    )]
    NotThere(PathBuf),
    /// This user may not open its socket.
    #[error(
        "the socket of tekd, {0}, may not be opened by this user: {again}",
        again = tek_advice::again_as_root(&["TEK_SOCKET"])
    )]
    NotAllowed(PathBuf),
    /// It did not answer a request, or hung up.
    #[error(
        "tekd at {0} does not answer ({1}): its log says why: {log}",
        log = as_root("journalctl -u tekd")
    )]
    Silent(PathBuf, Errno),
    /// The listener is not tekd, or has another protocol version.
    #[error("what listens at {0} is not the tekd of this version: {1}")]
    Nonsense(PathBuf, MessageError),
    /// It does not serve this connection.
    #[error("tekd hung up: {0}")]
    SentAway(String),
    /// It would not.
    #[error("tekd does not do it: {why}")]
    Refused {
        /// errno value.
        error: i32,
        /// In its own words.
        why: String,
    },
}

/// How to add a table, such as `[groups]`, to a configuration of tekd that lacks it.
pub fn add_table(table: &str) -> String {
    let add = as_root(&format!("mkdir -p /etc/tek && echo \"{table}\" >> /etc/tek/tekd.toml"));
    match is_service() {
        true => format!("{add}, then {}", as_root("systemctl restart tekd")),
        false => format!("{add}, then end tekd and start it again"),
    }
}

/// How to start tekd so that it listens at this path: as a service where one is installed, else in
/// the foreground.
pub fn start(at: &Path) -> String {
    let socket = match at == Path::new(SOCKET_PATH) {
        true if is_service() => return format!(": {}", as_root("systemctl start tekd")),
        true => String::new(),
        false => format!("--socket {}", quoted(&at.display().to_string())),
    };
    format!(", in another terminal: {}", tool_as_root("tekd", &socket))
}

/// Whether systemctl(1) can start tekd: systemd is process 1, and the unit is installed.
fn is_service() -> bool {
    const DIRECTORIES: [&str; 4] = ["/etc", "/usr/local/lib", "/usr/lib", "/lib"];
    Path::new("/run/systemd/system").exists()
        && DIRECTORIES.iter().any(|at| Path::new(at).join("systemd/system/tekd.service").exists())
}

/// A connection.
pub struct Connection {
    socket: OwnedFd,
    path: PathBuf,
    requests: u32,
}

impl Connection {
    /// Connects to the tekd that TEK_SOCKET names, else to that of the device.
    pub fn open() -> Result<Self, Error> {
        Self::to(&path())
    }

    /// Connects to the tekd that listens there.
    pub fn to(path: &Path) -> Result<Self, Error> {
        let socket = UnixAddr::new(path)
            .and_then(|address| connect_to(&address))
            .map_err(|error| not_connected(path, error))?;
        // No greeting is sent: a process without a grant would count as refused each time.
        Ok(Self { socket, path: path.to_owned(), requests: 0 })
    }

    /// Sends a request, and waits for the reply and the file that may come with it.
    pub fn ask(&mut self, request: Request) -> Result<(Reply, Option<File>), Error> {
        self.requests += 1;
        let request = Request { number: self.requests, ..request };
        match send(self.socket.as_raw_fd(), request.as_bytes(), MsgFlags::MSG_NOSIGNAL) {
            // It hung up, and may have sent a reason.
            Ok(_) | Err(Errno::EPIPE) => {}
            Err(error) => return Err(self.silent(error)),
        }
        for _ in 0..MOST_PASSED_OVER {
            let (reply, file) = self.receive()?;
            if reply.kind == TELL_REFUSED {
                return Err(Error::SentAway(why(&reply)));
            }
            if (reply.kind, reply.number) != (request.kind, request.number) {
                continue; // an unrequested message
            }
            return match reply.error {
                0 => Ok((reply, file)),
                error => Err(Error::Refused { error, why: why(&reply) }),
            };
        }
        Err(self.silent(Errno::ETIMEDOUT))
    }

    fn receive(&self) -> Result<(Reply, Option<File>), Error> {
        let mut bytes = [0; size_of::<Reply>() + 1];
        let mut space = nix::cmsg_space!(RawFd);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<()>(self.socket.as_raw_fd(), &mut slices, Some(&mut space), flags)
            .map_err(|error| self.silent(error))?;
        let files = received.cmsgs().map_err(|error| self.silent(error))?;
        let mut files: Vec<_> = files.flat_map(files_of).collect();
        let length = received.bytes;
        if length == 0 {
            return Err(self.silent(Errno::ECONNRESET));
        }
        let reply = Reply::decode(&bytes[..length])
            .map_err(|error| Error::Nonsense(self.path.clone(), error))?;
        Ok((reply, files.pop()))
    }

    fn silent(&self, error: Errno) -> Error {
        Error::Silent(self.path.clone(), error)
    }
}

/// The socket that TEK_SOCKET names, else that of the device.
pub fn path() -> PathBuf {
    let given = std::env::var_os("TEK_SOCKET").filter(|path| !path.is_empty());
    given.unwrap_or_else(|| SOCKET_PATH.into()).into()
}

/// The meaning of a failed connect.
pub fn not_connected(path: &Path, error: Errno) -> Error {
    let path = path.to_owned();
    match error {
        Errno::EACCES | Errno::EPERM => Error::NotAllowed(path),
        Errno::EAGAIN | Errno::ETIMEDOUT | Errno::EPIPE | Errno::ECONNRESET => {
            Error::Silent(path, error)
        }
        _ => Error::NotThere(path),
    }
}

/// Connects. Async-signal-safe, and allocates nothing.
pub fn connect_to(address: &UnixAddr) -> Result<OwnedFd, Errno> {
    let kind = SockType::SeqPacket;
    let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    let patience = TimeVal::seconds(PATIENCE_S);
    setsockopt(&socket, sockopt::SendTimeout, &patience)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &patience)?;
    connect(socket.as_raw_fd(), address)?;
    Ok(socket)
}

/// The files that came with a packet.
fn files_of(message: ControlMessageOwned) -> Vec<File> {
    match message {
        ControlMessageOwned::ScmRights(numbers) => {
            // SAFETY: the kernel has just made these descriptors for us; no other code knows them.
            numbers.into_iter().map(|fd| unsafe { File::from_raw_fd(fd) }).collect()
        }
        _ => Vec::new(),
    }
}

/// The text of a file that came with a reply, from its beginning, whatever position its sender left
/// it at; at most so many bytes.
pub fn text_of(mut file: File, most_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.take(most_bytes).read_to_string(&mut text)?;
    Ok(text)
}

/// Why it refused. The text is printed on a terminal.
pub fn why(reply: &Reply) -> String {
    match printable(&reply.text) {
        text if text.is_empty() => std::io::Error::from_raw_os_error(reply.error).to_string(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{accept4, bind, listen, recv, sendmsg, Backlog, ControlMessage};
    use std::io::{IoSlice, Write};
    use tek_abi::{ASK_STATUS, TELL_LEFT};

    /// The answer of a daemon to a request: packets, with the first of them a file that holds this.
    type Answer = (Vec<Vec<u8>>, Option<&'static str>);

    fn listener(path: &Path) -> OwnedFd {
        let kind = SockType::SeqPacket;
        let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
        listen(&socket, Backlog::new(8).unwrap()).unwrap();
        socket
    }

    /// Serves one connection, until it ends or a request has no answer.
    fn serve(listener: &OwnedFd, answer: fn(Request) -> Answer) {
        let fd = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).unwrap();
        // SAFETY: it was made just now, and no other code has it.
        let peer = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut bytes = [0; 100];
        while let Ok(length @ 1..) = recv(peer.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            let (packets, content) = answer(Request::decode(&bytes[..length]).unwrap());
            if packets.is_empty() {
                return;
            }
            let file = content.map(|text| {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(text.as_bytes()).unwrap();
                file
            });
            let mut numbers: Vec<_> = file.iter().map(AsRawFd::as_raw_fd).collect();
            for packet in packets {
                let control = [ControlMessage::ScmRights(&numbers)];
                let control = if numbers.is_empty() { &[] } else { &control[..] };
                let slices = [IoSlice::new(&packet)];
                let flags = MsgFlags::MSG_NOSIGNAL;
                sendmsg::<()>(peer.as_raw_fd(), &slices, control, flags, None).unwrap();
                numbers.clear();
            }
        }
    }

    fn done(request: &Request) -> Vec<u8> {
        Reply::to(request).as_bytes().to_vec()
    }

    fn refused(request: &Request, error: i32, why: &str) -> Answer {
        (vec![Reply::to(request).refused(error, why).as_bytes().to_vec()], None)
    }

    /// The result of asking such a daemon for its status.
    fn ask(answer: fn(Request) -> Answer) -> Result<(Reply, Option<File>), String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tekd");
        let listener = listener(&path);
        let daemon = std::thread::spawn(move || serve(&listener, answer));
        let answer = Connection::to(&path)
            .and_then(|mut connection| connection.ask(Request::new(ASK_STATUS, 0)))
            .map_err(|error| error.to_string().replace(&path.display().to_string(), "PATH"));
        daemon.join().unwrap();
        answer
    }

    #[test]
    fn without_a_daemon_the_error_names_the_command_that_starts_it() {
        let error = Connection::to(Path::new("/nowhere/tekd")).err().unwrap().to_string();
        for part in
            ["/nowhere/tekd;", "in another terminal: ", "tekd --socket /nowhere/tekd", "TEK_SOCKET"]
        {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn it_is_asked_for_nothing_but_what_is_wanted() {
        let answer = ask(|request| match request.kind {
            ASK_STATUS => (vec![done(&request)], None),
            _ => refused(&request, libc::EPERM, "no grant"),
        });
        assert_eq!(answer.unwrap().0.kind, ASK_STATUS);
    }

    #[test]
    fn a_file_comes_with_a_reply() {
        let answer = ask(|request| (vec![done(&request)], Some("{}")));
        let mut file = answer.unwrap().1.unwrap();
        file.seek(io::SeekFrom::End(0)).unwrap();
        assert_eq!(text_of(file.try_clone().unwrap(), 9).unwrap(), "{}");
        assert_eq!(text_of(file, 1).unwrap(), "{");
    }

    #[test]
    fn its_reason_is_reported_and_cannot_control_the_terminal() {
        let answer = ask(|request| refused(&request, 1, "not\x1b[2J you"));
        assert_eq!(answer.unwrap_err(), "tekd does not do it: not\\u{1b}[2J you");
        let answer = ask(|request| refused(&request, libc::ESRCH, ""));
        assert_eq!(answer.unwrap_err(), "tekd does not do it: No such process (os error 3)");
    }

    #[test]
    fn a_message_that_answers_no_request_is_skipped() {
        let answer = ask(|request| {
            let notice = Reply { number: 0, kind: TELL_LEFT, ..Reply::to(&request) };
            (vec![notice.as_bytes().to_vec(), done(&request)], None)
        });
        assert_eq!(answer.unwrap().0.kind, ASK_STATUS);
    }

    #[test]
    fn nonsense_and_a_hang_up_are_distinguished() {
        let reported = ask(|_| (vec![b"HTTP/1.1 400 Bad Request".to_vec()], None)).unwrap_err();
        assert!(
            reported.starts_with("what listens at PATH is not the tekd of this version"),
            "{reported}"
        );
        let reported = ask(|request| {
            (vec![Reply { version: 9, ..Reply::to(&request) }.as_bytes().to_vec()], None)
        });
        assert!(reported.unwrap_err().contains("version 9"));
        let reported = ask(|request| {
            let reply = Reply::to(&Request { kind: TELL_REFUSED, number: 0, ..request });
            let reply = reply.refused(libc::EAGAIN, "user 7 has too many connections");
            (vec![reply.as_bytes().to_vec()], None)
        });
        assert_eq!(reported.unwrap_err(), "tekd hung up: user 7 has too many connections");
        let reported = ask(|_| (Vec::new(), None)).unwrap_err();
        assert!(reported.starts_with("tekd at PATH does not answer (ECONNRESET"), "{reported}");
    }
}
