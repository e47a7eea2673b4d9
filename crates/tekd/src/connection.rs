// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: receives and sends packets, and never waits.
use crate::sys;
use nix::errno::Errno;
use nix::sys::socket::{
    getsockopt, recvmsg, sendmsg, setsockopt, sockopt, ControlMessage, ControlMessageOwned,
    MsgFlags, UnixAddr, UnixCredentials,
};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tek_abi::{Reply, Request};
use zerocopy::IntoBytes;

/// Room for unread replies: the smallest buffer of the kernel, which is enough for several. A reply
/// beyond it ends the connection.
const SEND_BYTES: usize = 8192;
/// The most bytes that are received of a packet; a request is shorter.
const PACKET_BYTES: usize = 256;
/// A client with more unread bytes, as the kernel counts them, gets no file: a few replies or
/// notices.
const BEHIND_BYTES: usize = SEND_BYTES / 2;

/// A received packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet {
    /// A request of the process that connected.
    Request(Request),
    /// Another packet, and its error.
    Bad(String),
    /// The other end is closed.
    End,
    /// No packet yet.
    Nothing,
}

/// A client's socket.
pub struct Connection {
    socket: OwnedFd,
    pid: i32,
    uid: u32,
    gid: u32,
    /// The user that is charged for it.
    pub user: u32,
}

impl Connection {
    /// A connected socket; `None` if the client is in a pid namespace that tekd cannot see.
    pub fn new(socket: OwnedFd) -> Option<Self> {
        let credentials = getsockopt(&socket, sockopt::PeerCredentials).ok()?;
        setsockopt(&socket, sockopt::PassCred, &true).ok()?;
        setsockopt(&socket, sockopt::SndBuf, &SEND_BYTES).ok()?;
        sys::refuse_descriptors(socket.as_fd());
        // 0 is a process of a pid namespace that is not beneath tekd's.
        let (pid, uid, gid) = (credentials.pid(), credentials.uid(), credentials.gid());
        (pid > 0).then_some(Self { socket, pid, uid, gid, user: uid })
    }

    /// The process that connected, by its id at that time.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its user at that time.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Its effective group at that time.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// The descriptor for epoll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives the next packet. Descriptors in it are discarded: there is no room for them.
    pub fn receive(&self) -> Packet {
        let mut buffer = [0; PACKET_BYTES];
        let mut control = nix::cmsg_space!(UnixCredentials);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC,
        );
        let (bytes, flags, sender) = match &received {
            Ok(message) => (message.bytes, message.flags, sender_of(message.cmsgs().ok())),
            Err(Errno::EAGAIN | Errno::EINTR) => return Packet::Nothing,
            Err(_) => return Packet::End,
        };
        if flags.contains(MsgFlags::MSG_CTRUNC) {
            return Packet::Bad("descriptors are not taken".to_owned());
        }
        match sender {
            // A closed socket has no sender; an empty packet has.
            None if bytes == 0 => return Packet::End,
            Some(pid) if pid == self.pid => {}
            _ => return Packet::Bad("another process connected here: connect yourself".to_owned()),
        }
        if flags.contains(MsgFlags::MSG_TRUNC) {
            return Packet::Bad(format!("a message of more than {PACKET_BYTES} bytes is none"));
        }
        match Request::decode(&buffer[..bytes]) {
            Ok(request) => Packet::Request(request),
            Err(error) => Packet::Bad(error.to_string()),
        }
    }

    /// Whether several replies wait for the client to read them.
    pub fn is_behind(&self) -> bool {
        sys::unread_bytes(self.socket.as_fd()) > BEHIND_BYTES
    }

    /// Sends a reply, with a file if there is one. An error ends the connection; unread replies
    /// without room for this one are such an error.
    pub fn send(&self, reply: &Reply, file: Option<&OwnedFd>) -> nix::Result<()> {
        let parts = [IoSlice::new(reply.as_bytes())];
        let fds: Vec<_> = file.iter().map(|file| file.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { &rights[..0] } else { &rights[..] };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendmsg::<UnixAddr>(self.socket.as_raw_fd(), &parts, control, flags, None).map(|_| ())
    }
}

fn sender_of(control: Option<impl Iterator<Item = ControlMessageOwned>>) -> Option<i32> {
    control?.find_map(|message| match message {
        ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.pid()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
    use tek_abi::{ASK_HELLO, ASK_STATUS};

    fn pair() -> (Connection, OwnedFd) {
        let kind = SockType::SeqPacket;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_NONBLOCK).unwrap();
        (Connection::new(ours).unwrap(), theirs)
    }

    fn send(to: &OwnedFd, bytes: &[u8], control: &[ControlMessage]) -> nix::Result<usize> {
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<UnixAddr>(to.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None)
    }

    #[test]
    fn a_request_comes_with_its_sender() {
        let (connection, client) = pair();
        assert_eq!(connection.receive(), Packet::Nothing);
        let request = Request::new(ASK_HELLO, 1);
        send(&client, request.as_bytes(), &[]).unwrap();
        assert_eq!(connection.receive(), Packet::Request(request));
        drop(client);
        assert_eq!(connection.receive(), Packet::End);
    }

    #[test]
    fn what_is_no_request_is_distinguished_from_the_end() {
        let (connection, client) = pair();
        for length in [0, 1, 63, 65, 256, 257, 4000] {
            send(&client, &vec![0; length], &[]).unwrap();
            assert!(matches!(connection.receive(), Packet::Bad(_)), "{length} bytes");
        }
    }

    #[test]
    fn descriptors_are_not_taken() {
        let (connection, client) = pair();
        let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let fds = [client.as_raw_fd(); 20];
        let request = Request::new(ASK_HELLO, 1);
        let sent = send(&client, request.as_bytes(), &[ControlMessage::ScmRights(&fds)]);
        if sent.is_ok() {
            assert!(matches!(connection.receive(), Packet::Bad(_)));
        }
        assert_eq!(connection.receive(), Packet::Nothing);
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() < before + 20);
    }

    #[test]
    fn a_client_that_has_some_replies_unread_is_behind() {
        let (connection, client) = pair();
        let reply = Reply::to(&Request::new(ASK_STATUS, 1));
        let sent = (0..100)
            .take_while(|_| !connection.is_behind() && connection.send(&reply, None).is_ok());
        let sent = sent.count();
        assert!((2..20).contains(&sent), "{sent} replies were sent");
        let mut buffer = [0; 200];
        for _ in 0..sent {
            nix::unistd::read(&client, &mut buffer).unwrap();
        }
        assert!(!connection.is_behind());
    }

    #[test]
    fn a_client_that_does_not_read_is_noticed_soon() {
        let (connection, _client) = pair();
        let reply = Reply::to(&Request::new(ASK_STATUS, 1));
        let sent = (0..1000).take_while(|_| connection.send(&reply, None).is_ok()).count();
        assert!((2..100).contains(&sent), "{sent} replies were sent");
    }
}
