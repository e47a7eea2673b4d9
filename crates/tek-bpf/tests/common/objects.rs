// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects through which a thread sends to another thread: each end sends and receives.
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// A descriptor each for sending and receiving, by read(2) and write(2) of this size.
    Descriptors {
        from: i32,
        to: i32,
        size: usize,
    },
    /// A datagram socket, and the address of the receiver.
    Datagrams {
        from: i32,
        to: i32,
        address: [u8; 16],
    },
    SystemV(i32),
    Posix(i32),
}

/// The ways from a client to a server and back. Descriptors stay open until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    request: Way,
    answer: Way,
}

fn checked(result: i64) -> i32 {
    assert!(result >= 0, "{}", std::io::Error::last_os_error());
    result as i32
}

fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("tek-bpf-{}-{number}", std::process::id())
}

fn socketpair(kind: i32) -> [i32; 2] {
    let mut pair = [0; 2];
    // SAFETY: the kernel writes two ints.
    let done = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
    checked(done.into());
    pair
}

/// An abstract address: a zero byte and 15 others.
fn bind_datagram(text: &str) -> (i32, [u8; 16]) {
    let mut address = [0; 16];
    let tail = &text.as_bytes()[text.len().saturating_sub(15)..];
    address[1..=tail.len()].copy_from_slice(tail);
    // SAFETY: the kernel reads one address of this length.
    unsafe {
        let socket = checked(libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0).into());
        let (raw, length) = socket_address(&address);
        checked(libc::bind(socket, (&raw const raw).cast(), length).into());
        (socket, address)
    }
}

fn socket_address(name: &[u8; 16]) -> (libc::sockaddr_un, u32) {
    // SAFETY: all bytes of the address may be zero.
    let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    raw.sun_family = libc::AF_UNIX as u16;
    raw.sun_path.iter_mut().zip(name).for_each(|(to, from)| *to = *from as libc::c_char);
    (raw, 2 + name.len() as u32)
}

fn pipe() -> Way {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two ints.
    checked(unsafe { libc::pipe(ends.as_mut_ptr()) }.into());
    Way::Descriptors { from: ends[1], to: ends[0], size: 4 }
}

fn fifo() -> Way {
    let path = CString::new(format!("/tmp/{}", name())).unwrap();
    // SAFETY: the kernel reads a string.
    let end = unsafe {
        checked(libc::mkfifo(path.as_ptr(), 0o600).into());
        let end = checked(libc::open(path.as_ptr(), libc::O_RDWR).into());
        libc::unlink(path.as_ptr());
        end
    };
    Way::Descriptors { from: end, to: end, size: 4 }
}

fn eventfd() -> Way {
    // SAFETY: no memory is passed.
    let descriptor = checked(unsafe { libc::eventfd(0, 0) }.into());
    Way::Descriptors { from: descriptor, to: descriptor, size: 8 }
}

fn system_v() -> Way {
    // SAFETY: no memory is passed.
    Way::SystemV(checked(unsafe { libc::msgget(libc::IPC_PRIVATE, 0o600) }.into()))
}

fn posix() -> Way {
    let path = CString::new(format!("/{}", name())).unwrap();
    // SAFETY: the C library reads a string and the attributes.
    unsafe {
        let mut attributes: libc::mq_attr = std::mem::zeroed();
        attributes.mq_maxmsg = 4;
        attributes.mq_msgsize = 8;
        let flags = libc::O_RDWR | libc::O_CREAT;
        let queue = libc::mq_open(path.as_ptr(), flags, 0o600, &raw mut attributes);
        libc::mq_unlink(path.as_ptr());
        Way::Posix(checked(queue.into()))
    }
}

impl Way {
    fn send(&self) {
        let word = [1u64, 1];
        let bytes = word.as_ptr().cast::<libc::c_void>();
        // SAFETY: the kernel reads at most these 16 bytes.
        let sent = unsafe {
            match self {
                Way::Descriptors { from, size, .. } => libc::write(*from, bytes, *size) as i64,
                Way::Datagrams { from, address, .. } => {
                    let (raw, length) = socket_address(address);
                    libc::sendto(*from, bytes, 4, 0, (&raw const raw).cast(), length) as i64
                }
                Way::SystemV(queue) => libc::msgsnd(*queue, bytes, 8, 0).into(),
                Way::Posix(queue) => libc::mq_send(*queue, bytes.cast(), 8, 0).into(),
            }
        };
        checked(sent);
    }

    fn receive(&self) {
        let mut word = [0u64; 2];
        let bytes = word.as_mut_ptr().cast::<libc::c_void>();
        // SAFETY: the kernel writes at most these 16 bytes.
        let got = unsafe {
            match self {
                Way::Descriptors { to, size, .. } => libc::read(*to, bytes, *size) as i64,
                Way::Datagrams { to, .. } => libc::recv(*to, bytes, 4, 0) as i64,
                Way::SystemV(queue) => libc::msgrcv(*queue, bytes, 8, 0, 0) as i64,
                Way::Posix(queue) => {
                    let mut priority = 0;
                    libc::mq_receive(*queue, bytes.cast(), 8, &raw mut priority) as i64
                }
            }
        };
        checked(got);
    }
}

impl Connection {
    pub fn pipes() -> Self {
        Self { request: pipe(), answer: pipe() }
    }

    pub fn fifos() -> Self {
        Self { request: fifo(), answer: fifo() }
    }

    pub fn eventfds() -> Self {
        Self { request: eventfd(), answer: eventfd() }
    }

    pub fn system_v_queues() -> Self {
        Self { request: system_v(), answer: system_v() }
    }

    pub fn posix_queues() -> Self {
        Self { request: posix(), answer: posix() }
    }

    /// A pair of connected sockets of this kind.
    pub fn sockets(kind: i32) -> Self {
        let [client, server] = socketpair(kind);
        Self {
            request: Way::Descriptors { from: client, to: server, size: 4 },
            answer: Way::Descriptors { from: server, to: client, size: 4 },
        }
    }

    /// Sockets that name the receiver of each datagram.
    pub fn datagrams() -> Self {
        let (client, its_address) = bind_datagram(&name());
        let (server, address) = bind_datagram(&name());
        Self {
            request: Way::Datagrams { from: client, to: server, address },
            answer: Way::Datagrams { from: server, to: client, address: its_address },
        }
    }

    /// Sends a request, and sleeps until its answer is there.
    pub fn call(&self) {
        self.request.send();
        self.answer.receive();
    }

    pub fn send_request(&self) {
        self.request.send();
    }

    pub fn receive_answer(&self) {
        self.answer.receive();
    }

    pub fn receive_request(&self) {
        self.request.receive();
    }

    pub fn send_answer(&self) {
        self.answer.send();
    }

    /// The descriptor at which the server can poll for a request, and the client for an answer.
    pub fn descriptors(&self) -> [i32; 2] {
        [self.request, self.answer].map(|way| match way {
            Way::Descriptors { to, .. } | Way::Datagrams { to, .. } => to,
            Way::SystemV(_) | Way::Posix(_) => -1,
        })
    }
}

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        for way in [self.0.request, self.0.answer] {
            if let Way::SystemV(queue) = way {
                // SAFETY: no memory is passed.
                unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
            }
        }
    }
}

/// Removes System V queues, which outlive their process.
pub struct RemovedAtEnd(Connection);

impl RemovedAtEnd {
    pub fn of(connection: Connection) -> Arc<Self> {
        Arc::new(Self(connection))
    }
}
