// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: packets in, packets out, never waiting.
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

/// Room for answers that the client has not read: the smallest that the kernel gives, and enough for
/// several. What is more than that ends the connection.
const SEND_BYTES: usize = 8192;
/// So much of a packet is taken; a request is shorter.
const PACKET_BYTES: usize = 256;
/// Who has left so much unread, as the kernel counts, gets no file: a few replies or notices.
const BEHIND_BYTES: usize = SEND_BYTES / 2;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet {
    /// A request of the process that connected.
    Request(Request),
    /// Something else, and what is wrong with it.
    Bad(String),
    /// The other end is closed.
    End,
    /// Not yet anything.
    Nothing,
}

/// A client's socket.
pub struct Connection {
    socket: OwnedFd,
    pid: i32,
    uid: u32,
    gid: u32,
    /// The user on whose account it is.
    pub user: u32,
}

impl Connection {
    /// A socket that somebody connected to; `None` where tekd cannot see who.
    pub fn new(socket: OwnedFd) -> Option<Self> {
        let who = getsockopt(&socket, sockopt::PeerCredentials).ok()?;
        setsockopt(&socket, sockopt::PassCred, &true).ok()?;
        setsockopt(&socket, sockopt::SndBuf, &SEND_BYTES).ok()?;
        sys::refuse_descriptors(socket.as_fd());
        // 0 is a process of a pid namespace that is not beneath tekd's.
        let (pid, uid, gid) = (who.pid(), who.uid(), who.gid());
        (pid > 0).then_some(Self { socket, pid, uid, gid, user: uid })
    }

    /// The process that connected, as it was then called.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its user then.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Its effective group then.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// What to wait for.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next packet. Descriptors that come with it are not taken: there is no room for them.
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

    /// Sends a reply, with a file if there is one. An error, also that the client has not read what
    /// was sent before, ends the connection.
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
        ControlMessageOwned::ScmCredentials(who) => Some(who.pid()),
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
    fn what_is_no_request_is_told_from_the_end() {
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
    fn who_has_some_replies_unread_is_behind() {
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
    fn who_does_not_read_is_noticed_soon() {
        let (connection, _client) = pair();
        let reply = Reply::to(&Request::new(ASK_STATUS, 1));
        let sent = (0..1000).take_while(|_| connection.send(&reply, None).is_ok()).count();
        assert!((2..100).contains(&sent), "{sent} replies were sent");
    }
}
