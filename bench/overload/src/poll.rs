//! epoll, and one clock for all of a run.
//!
//! Timeouts are exact to the timer slack of the thread, which is set to the least there is: a
//! service time of 10 ms must not become 11.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::plan::Micros;

/// Events taken from the kernel at a time: plain choice, several times what comes in a millisecond.
const EVENTS: usize = 256;

/// A set of sockets that are watched, each under a number.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poll {
    /// An empty set, for the calling thread.
    pub fn new() -> io::Result<Poll> {
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Watches a socket for bytes and for the end, and for room to write when `writes`. It leaves
    /// the set when it is closed.
    pub fn add(&self, socket: impl AsFd, number: u64, writes: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), flags(writes))?)
    }

    /// Changes whether room to write is watched for.
    pub fn change(&self, socket: impl AsFd, number: u64, writes: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(number), flags(writes))?)
    }

    /// Waits for `time` at most; the numbers of the sockets where something has happened.
    pub fn wait(&mut self, time: Micros) -> io::Result<Vec<u64>> {
        let timeout = Timespec {
            tv_sec: (time / 1_000_000) as i64,
            tv_nsec: (time % 1_000_000 * 1000) as i64,
        };
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }
}

fn flags(writes: bool) -> EventFlags {
    let reads = EventFlags::IN | EventFlags::RDHUP;
    if writes { reads | EventFlags::OUT } else { reads }
}

/// The clock of a run.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that shows 0 after `pause`.
    pub fn after(pause: Duration) -> Clock {
        #[expect(clippy::disallowed_methods, reason = "the bench is no part of the product")]
        Clock(Instant::now() + pause)
    }

    /// The time since the begin; 0 before it.
    pub fn now(&self) -> Micros {
        self.0.elapsed().as_micros() as Micros
    }

    /// The time until the begin; 0 after it.
    pub fn until_begin(&self) -> Micros {
        #[expect(clippy::disallowed_methods, reason = "the bench is no part of the product")]
        let now = Instant::now();
        self.0.saturating_duration_since(now).as_micros() as Micros
    }
}
