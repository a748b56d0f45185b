//! The socket on which one process says that it is ready, lives, or leaves.
//!
//! It speaks the notification protocol of systemd (sd_notify(3)): datagrams of `KEY=VALUE` lines.
//! Each process has a socket of its own, in the abstract namespace, so nothing is left on disk.
//! Anybody on the machine can send to such a socket; a datagram counts only if the kernel says that
//! it comes from the process's group or from our own user (a short-lived notifier may be gone
//! before we can ask for its group).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::group::Group;
use crate::sys::process::{Sender, receive_with_sender};
use crate::sys::watch::watch;

/// Longest datagram that is read; the rest of a longer one is not.
const DATAGRAM_LEN_MAX: usize = 4096;

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A bound socket, before the control runtime has it.
#[derive(Debug)]
pub(super) struct NotifySocket {
    socket: UnixDatagram,
    /// The value of `NOTIFY_SOCKET`.
    pub(super) address: String,
}

impl NotifySocket {
    pub(super) fn bind() -> io::Result<NotifySocket> {
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("spillgate/notify/{}/{number}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_passcred(&socket, true)?;
        Ok(NotifySocket { socket, address: format!("@{name}") })
    }

    /// Hand it to the engine. Only inside the control runtime.
    pub(super) fn listen(self) -> io::Result<Notifications> {
        Ok(Notifications { socket: watch(self.socket.into(), Interest::READABLE)? })
    }
}

/// What a process said in one datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) ready: bool,
    pub(super) alive: bool,
    pub(super) leaving: bool,
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Notifications {
    socket: AsyncFd<OwnedFd>,
}

impl Notifications {
    /// The next thing that the process of `group` says; never, once the socket is broken.
    /// Cancel-safe: a datagram is read whole or not at all.
    pub(super) async fn next(&self, group: &Group) -> Notice {
        let mut datagram = [0; DATAGRAM_LEN_MAX];
        loop {
            match self.receive(&mut datagram).await {
                Ok((len, Some(sender))) if is_believed(sender, group) => {
                    return parse(&datagram[..len]);
                }
                Ok(_) => {}
                Err(_) => std::future::pending().await,
            }
        }
    }

    async fn receive(&self, datagram: &mut [u8]) -> io::Result<(usize, Option<Sender>)> {
        loop {
            let mut readable = self.socket.readable().await?;
            let received =
                readable.try_io(|socket| receive_with_sender(socket.get_ref().as_fd(), datagram));
            if let Ok(received) = received {
                return received;
            }
        }
    }
}

fn is_believed(sender: Sender, group: &Group) -> bool {
    sender.uid == rustix::process::geteuid().as_raw() || group.contains(sender.pid)
}

fn parse(datagram: &[u8]) -> Notice {
    let mut notice = Notice::default();
    for line in datagram.split(|byte| *byte == b'\n') {
        match line {
            b"READY=1" => notice.ready = true,
            b"WATCHDOG=1" => notice.alive = true,
            b"STOPPING=1" => notice.leaving = true,
            _ => {}
        }
    }
    notice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Guard;

    #[test]
    fn our_user_and_the_group_are_believed() {
        let guard = Guard::start().expect("it can be forked");
        let group = Group::new(rustix::process::getpgrp(), guard);
        let pid = i32::try_from(std::process::id()).expect("a pid is small");
        let uid = rustix::process::geteuid().as_raw();
        for (sender, wanted) in [
            (Sender { pid, uid: uid + 1 }, true),
            (Sender { pid: 0, uid }, true),
            (Sender { pid: 0, uid: uid + 1 }, false),
            (Sender { pid: i32::MAX, uid: uid + 1 }, false),
        ] {
            assert_eq!(is_believed(sender, &group), wanted, "{sender:?}");
        }
    }

    #[test]
    fn known_lines_count_and_others_do_not() {
        for (datagram, ready, alive, leaving) in [
            ("READY=1", true, false, false),
            ("STATUS=up\nREADY=1\nWATCHDOG=1\n", true, true, false),
            ("STOPPING=1\nMAINPID=7", false, false, true),
            ("READY=0\nready=1\nXREADY=1\nREADY=11", false, false, false),
            ("", false, false, false),
        ] {
            let wanted = Notice { ready, alive, leaving };
            assert_eq!(parse(datagram.as_bytes()), wanted, "{datagram:?}");
        }
        assert_eq!(parse(&[0xff, b'\n', 0]), Notice::default());
    }
}
