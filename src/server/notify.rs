//! Reports the state of the process to the service manager: sd_notify(3), a datagram to the socket in
//! `NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Process `pid` serves.
pub(super) fn serving(pid: u32) {
    tell(&format!("MAINPID={pid}\nREADY=1\nSTATUS=serving"));
}

/// Another process is the service from now on.
pub(super) fn succeeded_by(pid: u32) {
    tell(&format!("MAINPID={pid}"));
}

/// Another process is about to take over.
pub(super) fn upgrading() {
    tell("RELOADING=1\nSTATUS=another process takes over");
}

/// It did not, and this one continues. It reports its own process id, because the other process may have reported
/// itself as the service before it failed.
pub(super) fn upgrade_failed() {
    let pid = std::process::id();
    tell(&format!(
        "MAINPID={pid}\nREADY=1\nSTATUS=serving; the last upgrade failed: see the log"
    ));
}

/// The process ends.
pub(super) fn stopping() {
    tell("STOPPING=1\nSTATUS=finishing the running requests");
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(fault) = send(&socket, state) {
        log::warn!("the state cannot be reported to the service manager: {fault}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagram = UnixDatagram::unbound()?;
    // Nothing waits for a manager that does not read.
    datagram.set_nonblocking(true)?;
    datagram.send_to_addr(state.as_bytes(), &address).map(drop)
}
