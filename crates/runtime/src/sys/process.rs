//! What a process does between its birth and its program, and who sent a datagram.
//!
//! Both need calls that no safe wrapper has: code that runs in a forked copy of a threaded process,
//! and control messages of a socket. (A safe wrapper of the latter takes the sender's process id as
//! never zero, which a sender in another process namespace breaks.)
#![allow(unsafe_code)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// The classic signals; the kernel keeps SIGKILL and SIGSTOP as they are. Those above are the C
/// library's own and those of programs that agreed on them.
const SIGNALS: RangeInclusive<libc::c_int> = 1..=31;

/// Have the program of `command` die with the thread that starts it, and begin with no signal
/// blocked or ignored and no descriptor but the three standard ones.
///
/// "With the thread": the kernel sends SIGKILL when the starting thread ends, not only the process,
/// so start programs from a thread that lives as long as they may.
pub(crate) fn tie_to_this_thread(command: &mut Command) {
    let parent = std::process::id();
    let descriptors = crate::descriptors::found();
    // SAFETY: the closure runs in the forked copy, where only async-signal-safe functions may be
    // called. `at_birth` makes system calls and calls `sigemptyset` and `signal`, all of which are;
    // it neither allocates nor takes a lock, and `from_raw_os_error` stores a number.
    unsafe {
        command.pre_exec(move || at_birth(parent, descriptors));
    }
}

fn at_birth(parent: u32, descriptors: Option<u64>) -> io::Result<()> {
    // SAFETY: plain system calls on values that live on this stack; nothing is shared with the
    // parent any more. A refused `close_range` (an old kernel) leaves descriptors to their own
    // close-on-exec flags, which every part of the product sets.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the line above: then nobody would send the signal.
        if u32::try_from(libc::getppid()) != Ok(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        for signal in SIGNALS {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut limit = MaybeUninit::<libc::rlimit>::zeroed().assume_init();
        if let Some(descriptors) = descriptors
            && libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
        {
            limit.rlim_cur = descriptors.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    }
    Ok(())
}

/// The process group of process `pid`; 0 for one that has none or one that we do not see, none when
/// there is no such process.
pub(crate) fn group_of(pid: i32) -> Option<i32> {
    // SAFETY: takes and gives plain numbers.
    let group = unsafe { libc::getpgid(pid) };
    (group >= 0).then_some(group)
}

/// Who sent a datagram, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// Its process id; 0 when it lives in a process namespace that we do not see.
    pub(crate) pid: i32,
    /// Its user.
    pub(crate) uid: u32,
}

/// Room for one control message with credentials. No more, so that the kernel throws away
/// descriptors that a sender tries to hand over.
const CONTROL_LEN: usize = {
    // SAFETY: computes a length from a length.
    unsafe { libc::CMSG_SPACE(mem::size_of::<libc::ucred>() as u32) as usize }
};

/// Control bytes at the alignment that their headers need.
#[repr(C)]
union Control {
    bytes: [u8; CONTROL_LEN],
    _align: libc::cmsghdr,
}

/// Receive one datagram into `buffer`: its length (the rest of a longer one is lost), and its
/// sender where the socket was told to pass that on. Does not block.
pub(crate) fn receive_with_sender(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<Sender>)> {
    let mut control = Control { bytes: [0; CONTROL_LEN] };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid `msghdr` (null pointers and zero lengths).
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL_LEN;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `message` points to `part` and `control`, which live on this stack until the call is
    // over, and `part` to `buffer`, which is borrowed for as long; the lengths are theirs.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let len = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((len, sender_of(&message)))
}

fn sender_of(message: &libc::msghdr) -> Option<Sender> {
    // SAFETY: `message` was filled by the kernel and its control bytes are alive; the macro gives
    // null or a header within them.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    // SAFETY: computes a length from a length.
    let len_min = unsafe { libc::CMSG_LEN(mem::size_of::<libc::ucred>() as u32) } as usize;
    let is_sender = header.cmsg_level == libc::SOL_SOCKET
        && header.cmsg_type == libc::SCM_CREDENTIALS
        && header.cmsg_len >= len_min;
    if !is_sender {
        return None;
    }
    // SAFETY: the header says that a whole `ucred` follows it, which holds three plain numbers.
    let found = unsafe { ptr::read_unaligned(libc::CMSG_DATA(header).cast::<libc::ucred>()) };
    Some(Sender { pid: found.pid, uid: found.uid })
}
