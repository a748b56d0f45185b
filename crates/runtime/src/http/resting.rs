//! Client connections that have been idle for a while, at the cost of a table entry each.
//!
//! A served connection is a task with a registration at the engine, a limit, and room for an
//! exchange: some kilobytes. Most kept connections are silent for most of their life. So one that
//! has been idle for `REST_AFTER` rests: its task ends, and what is left is its descriptor in a
//! second epoll, its client, and the end of its idle time. When it speaks it gets a task again.
//!
//! The engine watches the second epoll as one descriptor, so a resting connection costs nothing
//! until something happens to it. Sharing: belongs to its thread. Invariant: a place is taken for
//! exactly as long as its descriptor is in the second epoll.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::event::{Timespec, epoll};
use spillgate_core::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::service::Client;
use crate::clock;
use crate::deadline::Deadline;
use crate::sys;

/// Idle time after which a connection rests. A client that asks again within a second finds its
/// task as it left it; one that does not, pays some microseconds for a new one.
pub(super) const REST_AFTER: Duration = Duration::from_secs(1);

/// Idle time below which resting is not worth the look at the clock: an idle time may be over by
/// [`LOOK_INTERVAL`] when it ends.
pub(super) const REST_WORTH_MIN: Duration = Duration::from_secs(5);

/// How often it is looked whose idle time is over.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Wake-ups that are fetched with one system call. Plain choice.
const BATCH: usize = 64;

/// What is left of a connection that rests.
#[derive(Debug)]
pub struct Rested {
    pub(super) fd: OwnedFd,
    pub(super) client: Client,
    /// When its idle time is over.
    pub(super) until: Instant,
}

/// One that rests no more.
#[derive(Debug)]
pub struct Woken<T> {
    /// The connection.
    pub rested: Rested,
    /// What was kept with it.
    pub with: T,
    /// It is to be served: it has something to say, or everything ends. Else its idle time is over.
    pub serve: bool,
}

/// The connections of one listener and shard that rest, each with a `T` of whoever serves them.
pub struct Resting<T> {
    epoll: AsyncFd<OwnedFd>,
    places: RefCell<Places<T>>,
    look: Deadline,
}

struct Places<T> {
    taken: Vec<Option<(Rested, T)>>,
    free: Vec<u32>,
}

impl<T> Resting<T> {
    /// None rests. To be called on the shard.
    ///
    /// Errors: no descriptor is left, or the engine cannot watch it.
    pub fn new() -> io::Result<Resting<T>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Resting {
            epoll: sys::watch::watch(epoll, Interest::READABLE)?,
            places: RefCell::new(Places { taken: Vec::new(), free: Vec::new() }),
            look: Deadline::unset(),
        })
    }

    /// Let a connection rest.
    ///
    /// Errors: the kernel cannot watch another descriptor; what was kept with it is given back, and
    /// the connection is closed.
    pub fn put(&self, rested: Rested, with: T) -> Result<(), T> {
        let mut places = self.places.borrow_mut();
        let index = places.free.last().map_or(places.taken.len(), |index| *index as usize);
        let wanted = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        let name = epoll::EventData::new_u64(index as u64);
        if epoll::add(self.epoll.get_ref(), &rested.fd, name, wanted).is_err() {
            return Err(with);
        }
        match places.free.pop() {
            Some(_) => places.taken[index] = Some((rested, with)),
            None => places.taken.push(Some((rested, with))),
        }
        Ok(())
    }

    /// Ready when some of them rest no more; those are moved into `woken`. With `all` that is
    /// everybody; the task is woken when that may have to be said.
    pub fn poll_woken(
        &self,
        cx: &mut Context<'_>,
        all: bool,
        woken: &mut Vec<Woken<T>>,
    ) -> Poll<()> {
        self.fetch_spoken(cx, woken);
        if all {
            self.take_where(woken, true, |_| true);
        }
        if self.look.poll_passed(cx).is_ready() || !self.look.is_set() {
            let now = clock::now();
            self.take_where(woken, false, |rested| rested.until <= now);
            self.look.set_after(LOOK_INTERVAL);
            // Registers for the limit just set.
            let _ = self.look.poll_passed(cx);
        }
        if woken.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Move those that the kernel names.
    fn fetch_spoken(&self, cx: &mut Context<'_>, woken: &mut Vec<Woken<T>>) {
        while let Poll::Ready(Ok(mut guard)) = self.epoll.poll_read_ready(cx) {
            let mut room = [const { MaybeUninit::uninit() }; BATCH];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let Ok((events, _)) = epoll::wait(self.epoll.get_ref(), &mut room, Some(&at_once))
            else {
                // Interrupted by a signal.
                continue;
            };
            for event in &*events {
                let index = event.data;
                woken.extend(self.take(index.u64() as usize, true));
            }
            if events.len() < BATCH {
                guard.clear_ready();
            }
        }
    }

    fn take_where(&self, woken: &mut Vec<Woken<T>>, serve: bool, is: impl Fn(&Rested) -> bool) {
        let len = self.places.borrow().taken.len();
        for index in 0..len {
            let chosen = self.places.borrow().taken[index].as_ref().is_some_and(|(r, _)| is(r));
            if chosen {
                woken.extend(self.take(index, serve));
            }
        }
    }

    fn take(&self, index: usize, serve: bool) -> Option<Woken<T>> {
        let mut places = self.places.borrow_mut();
        let (rested, with) = places.taken.get_mut(index)?.take()?;
        places.free.push(u32::try_from(index).expect("fewer connections than descriptors"));
        // Fails only where it is not in there, which is what we want.
        let _ = epoll::delete(self.epoll.get_ref(), rested.fd.as_fd());
        Some(Woken { rested, with, serve })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use spillgate_core::id::ShardId;

    use super::*;
    use crate::shard;

    /// One end of a connection that rests until `until`, which was put there with `name`.
    fn put(resting: &Resting<&'static str>, name: &'static str, until: Instant) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("two descriptors are free");
        let client = Client { address: None, trusted: false, steers: false };
        resting.put(Rested { fd: ours.into(), client, until }, name).expect("it can be watched");
        theirs
    }

    async fn woken(resting: &Resting<&'static str>, all: bool) -> Vec<(&'static str, bool)> {
        let mut woken = Vec::new();
        std::future::poll_fn(|cx| resting.poll_woken(cx, all, &mut woken)).await;
        woken.iter().map(|one| (one.with, one.serve)).collect()
    }

    #[test]
    fn they_come_back_when_they_speak_end_or_everything_stops() {
        let thread = shard::start(ShardId(0), None, || async {
            let resting = Resting::new().expect("a descriptor is free");
            let later = Instant::FAR_FUTURE;
            let _silent = put(&resting, "silent", later);
            let mut speaks = put(&resting, "speaks", later);
            speaks.write_all(b"GET").expect("the other end is open");
            assert_eq!(woken(&resting, false).await, [("speaks", true)]);
            drop(put(&resting, "leaves", later));
            assert_eq!(woken(&resting, false).await, [("leaves", true)]);
            let _old = put(&resting, "old", Instant::ZERO);
            assert_eq!(woken(&resting, false).await, [("old", false)]);
            assert_eq!(woken(&resting, true).await, [("silent", true)]);
            assert!(resting.places.borrow().taken.iter().all(Option::is_none));
        });
        thread.expect("a thread can be started").join().expect("the shard ends well");
    }
}
