//! The messages between a gateway and the process that takes over from it, over one Unix stream: lines, and once
//! the listening sockets.
//!
//! | Process | sends | meaning |
//! |---|---|---|
//! | new | `take 1` | requests the listeners |
//! | old | addresses as JSON, with the sockets | hands them over and continues to serve |
//! | new | `ready` | is ready to serve |
//! | old | `go` | the ledger knows both processes |
//! | new | `serving PID` | serves |
//! | old | `commit` | the new process has the service |
//! | new | `acknowledge` | confirms `commit` |
//! | old | `drained` | accepts no more connections |
//!
//! Either sends `failed TEXT` if it cannot continue. `upgrade` instead of `take 1` makes the old process start the
//! new one; the answer is `done PID` or `failed TEXT`.
//!
//! Exactly one of them serves in the end. Only the old process decides, with `commit` or `failed`; the new one
//! waits for the decision. Lines arrive in order, so the end of the stream without a line means that the other
//! process has crashed. The old process then continues to serve until `acknowledge`; the new one serves once it
//! has the sockets.

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Requests the listeners.
pub(super) const TAKE: &str = "take 1";
/// Requests that the gateway starts its successor.
pub(super) const UPGRADE: &str = "upgrade";
pub(super) const READY: &str = "ready";
pub(super) const GO: &str = "go";
pub(super) const SERVING: &str = "serving";
pub(super) const COMMIT: &str = "commit";
pub(super) const ACKNOWLEDGE: &str = "acknowledge";
pub(super) const DRAINED: &str = "drained";
pub(super) const DONE: &str = "done";
pub(super) const FAILED: &str = "failed";

/// The longest line; the addresses of 64 listeners are a tenth of it.
pub(super) const MOST_LINE_BYTES: usize = 64 * 1024;
/// The most sockets; the kernel accepts 253 in one message.
pub(super) const MOST_SOCKETS: usize = 128;

const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST_SOCKETS));

/// The addresses of the sockets that come with it, in the same order: first the operator's.
#[derive(Serialize, Deserialize)]
pub(super) struct Addresses {
    pub(super) admin: SocketAddr,
    pub(super) callers: Vec<SocketAddr>,
}

/// Sends addresses and sockets. The socket buffer of a fresh stream has room for them.
///
/// # Errors
///
/// The other end is gone, or there are too many sockets.
pub(super) fn send(
    stream: impl AsFd,
    addresses: &Addresses,
    sockets: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut line = serde_json::to_vec(addresses)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut message = SendAncillaryBuffer::new(&mut space);
    if !message.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("more listeners than can be handed over"));
    }
    let bytes = [IoSlice::new(&line)];
    let sent = sendmsg(stream, &bytes, &mut message, SendFlags::NOSIGNAL)?;
    if sent == line.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Receives addresses and sockets from a stream that blocks.
///
/// # Errors
///
/// The other end is gone, or has sent something else.
pub(super) fn receive(stream: impl AsFd) -> io::Result<(Addresses, Vec<OwnedFd>)> {
    let mut line = Vec::new();
    let mut sockets = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut bytes = [0_u8; 4096];
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        // A signal ends the wait of a stream that has a time limit.
        let received =
            retry_on_intr(|| recvmsg(&stream, &mut parts, &mut message, RecvFlags::CMSG_CLOEXEC))?;
        for part in message.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = part {
                sockets.extend(passed);
            }
        }
        let piece = bytes.get(..received.bytes).unwrap_or_default();
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.extend_from_slice(piece);
        if line.len() > MOST_LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let addresses: Addresses = serde_json::from_slice(&line).map_err(|_| refused(&line))?;
    if sockets.len() != addresses.callers.len().saturating_add(1) {
        return Err(io::Error::other(
            "the number of sockets is not that of addresses",
        ));
    }
    Ok((addresses, sockets))
}

/// The fault for an unexpected answer of the other end.
pub(super) fn refused(line: &[u8]) -> io::Error {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    io::Error::other(match text.strip_prefix(FAILED) {
        Some(cause) => cause.trim().to_owned(),
        None => format!("it said '{text:.200}'"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_that_was_passed_on_still_listens() {
        let (old, new) = UnixStream::pair().unwrap();
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let at = |listener: &TcpListener| listener.local_addr().unwrap();
        let addresses = Addresses {
            admin: at(&listeners[0]),
            callers: listeners[1..].iter().map(at).collect(),
        };
        let sockets: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
        send(&old, &addresses, &sockets).unwrap();
        drop((sockets, old));
        let kept: Vec<_> = listeners.iter().map(at).collect();
        drop(listeners);
        let (reported, received) = receive(&new).unwrap();
        assert_eq!(
            (reported.admin, reported.callers),
            (kept[0], kept[1..].to_vec())
        );
        for (address, socket) in kept.into_iter().zip(received) {
            let listener = TcpListener::from(socket);
            let _caller = TcpStream::connect(address).unwrap();
            assert!(listener.accept().is_ok());
        }
    }

    #[test]
    fn an_answer_that_is_no_offer_is_reported_in_its_words() {
        for (said, reported) in [("failed not now\n", "not now"), ("hello\n", "'hello'")] {
            let (mut old, new) = UnixStream::pair().unwrap();
            old.write_all(said.as_bytes()).unwrap();
            let fault = receive(&new).err().unwrap().to_string();
            assert!(fault.contains(reported), "{fault}");
        }
        let (old, new) = UnixStream::pair().unwrap();
        drop(old);
        assert!(receive(&new).is_err());
    }
}
