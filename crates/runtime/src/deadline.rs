//! Time limits of connections, kept as numbers and swept.
//!
//! A connection has one limit in force at a time and moves it several times within one exchange. An
//! engine timer for each would cost more than the rest of the bookkeeping together, so a limit is a
//! number in a table of the shard, and one timer of the shard looks through the table every
//! [`SWEEP_INTERVAL`]. A limit therefore fires up to one interval late, and never early.
//!
//! Sharing: the table belongs to its thread.

use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

use spillgate_core::time::{Duration, Instant};

use crate::clock;

/// How often a shard looks at its limits.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    static TABLE: RefCell<Table> = const {
        RefCell::new(Table { entries: Vec::new(), free: Vec::new(), swept: Instant::ZERO })
    };
}

struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// The moment of the last sweep: limits up to it have passed. Saves a clock reading a poll.
    swept: Instant,
}

struct Entry {
    at: Instant,
    /// Its task is woken here, too.
    announced: Instant,
    waker: Option<Waker>,
}

impl Entry {
    const UNSET: Entry =
        Entry { at: Instant::FAR_FUTURE, announced: Instant::FAR_FUTURE, waker: None };

    fn set(&mut self, at: Instant) {
        (self.at, self.announced) = (at, Instant::FAR_FUTURE);
    }
}

/// One time limit of this thread. Unset at first.
#[derive(Debug)]
pub struct Deadline {
    index: u32,
    // Not Send: the index means nothing on another thread.
    _local: std::marker::PhantomData<*const ()>,
}

impl Deadline {
    /// A limit that is not in force.
    pub fn unset() -> Deadline {
        let index = TABLE.with_borrow_mut(|table| {
            if let Some(index) = table.free.pop() {
                table.entries[index as usize] = Entry::UNSET;
                return index;
            }
            table.entries.push(Entry::UNSET);
            u32::try_from(table.entries.len() - 1).expect("fewer limits than descriptors")
        });
        Deadline { index, _local: std::marker::PhantomData }
    }

    /// Put it in force until `at`; replaces what was in force, and what was announced.
    pub fn set(&self, at: Instant) {
        TABLE.with_borrow_mut(|table| table.entries[self.index as usize].set(at));
    }

    /// Put it in force for `duration` from about now, without reading the clock: reckoned from the
    /// next sweep, so that it passes up to two intervals late, and early by no more than a busy
    /// shard sweeps late. For limits of seconds that are moved in each exchange.
    pub fn set_after(&self, duration: Duration) {
        TABLE.with_borrow_mut(|table| {
            let at = table.swept + SWEEP_INTERVAL + duration;
            table.entries[self.index as usize].set(at);
        });
    }

    /// Have the task woken while it waits for the limit in force, at the last sweep before `at`, or
    /// at the next one where that is over. So whoever needs the moment itself makes a timer for it
    /// only where it has nearly come.
    pub fn announce(&self, at: Instant) {
        TABLE.with_borrow_mut(|table| {
            let next = table.swept + Duration::from_nanos(1);
            table.entries[self.index as usize].announced = next.max(at - SWEEP_INTERVAL);
        });
    }

    /// Has what was announced nearly come? Once.
    pub fn take_announced(&self) -> bool {
        TABLE.with_borrow_mut(|table| {
            let entry = &mut table.entries[self.index as usize];
            let near = entry.announced <= table.swept;
            if near {
                entry.announced = Instant::FAR_FUTURE;
            }
            near
        })
    }

    /// Let it pass at `at` unless it does so before.
    pub fn shorten(&self, at: Instant) {
        TABLE.with_borrow_mut(|table| {
            let entry = &mut table.entries[self.index as usize];
            entry.at = entry.at.min(at);
        });
    }

    /// Is it in force (perhaps passed)?
    pub fn is_set(&self) -> bool {
        TABLE.with_borrow(|table| table.entries[self.index as usize].at < Instant::FAR_FUTURE)
    }

    /// Take it out of force.
    pub fn clear(&self) {
        self.set(Instant::FAR_FUTURE);
    }

    /// Have the task look again after `pause`, unless something wakes it before.
    pub fn look_again(&self, pause: Duration, cx: &mut Context<'_>) {
        self.set(clock::now() + pause);
        let _ = self.poll_passed(cx);
    }

    /// Ready once it has passed; the task is woken then.
    pub fn poll_passed(&self, cx: &mut Context<'_>) -> Poll<()> {
        TABLE.with_borrow_mut(|table| {
            let entry = &mut table.entries[self.index as usize];
            if entry.at == Instant::FAR_FUTURE {
                return Poll::Pending;
            }
            if entry.at <= table.swept {
                return Poll::Ready(());
            }
            match &mut entry.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => entry.waker = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // Fails only while the thread ends: then the table is gone.
        let _ = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            table.entries[self.index as usize] = Entry::UNSET;
            table.free.push(self.index);
        });
    }
}

/// Wake every task whose limit has passed.
pub fn sweep(now: Instant) {
    TABLE.with_borrow_mut(|table| {
        table.swept = table.swept.max(now);
        for entry in &mut table.entries {
            if entry.at.min(entry.announced) <= now
                && let Some(waker) = entry.waker.take()
            {
                waker.wake();
            }
        }
    });
}

/// Put every limit off by the time since the last sweep, in which nothing was done.
pub fn pass_over(now: Instant) {
    TABLE.with_borrow_mut(|table| {
        let lost = now.since(table.swept);
        table.swept = table.swept.max(now);
        for entry in table.entries.iter_mut().filter(|entry| entry.at < Instant::FAR_FUTURE) {
            (entry.at, entry.announced) = (entry.at + lost, entry.announced + lost);
        }
    });
}

/// Wake every task that has a limit, whether or not it has passed: something else has changed.
pub fn wake_all() {
    TABLE.with_borrow_mut(|table| {
        for waker in table.entries.iter_mut().filter_map(|entry| entry.waker.take()) {
            waker.wake();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_passes_only_when_it_is_due() {
        let mut cx = Context::from_waker(Waker::noop());
        let limit = Deadline::unset();
        assert!(limit.poll_passed(&mut cx).is_pending());
        limit.set(Instant::from_millis(100));
        assert!(limit.poll_passed(&mut cx).is_pending());
        sweep(Instant::from_millis(99));
        assert!(limit.poll_passed(&mut cx).is_pending());
        sweep(Instant::from_millis(100));
        assert!(limit.poll_passed(&mut cx).is_ready());
        limit.clear();
        assert!(limit.poll_passed(&mut cx).is_pending());
        limit.set(Instant::from_millis(150));
        pass_over(Instant::from_millis(190));
        assert!(limit.poll_passed(&mut cx).is_pending());
        for at in [300, 200, 400] {
            limit.shorten(Instant::from_millis(at));
        }
        sweep(Instant::from_millis(199));
        assert!(limit.poll_passed(&mut cx).is_pending());
        sweep(Instant::from_millis(200));
        assert!(limit.poll_passed(&mut cx).is_ready());
    }

    #[test]
    fn a_limit_reckoned_from_the_sweeps_is_never_early() {
        let mut cx = Context::from_waker(Waker::noop());
        let limit = Deadline::unset();
        sweep(Instant::from_millis(1_000));
        limit.set_after(Duration::from_millis(200));
        sweep(Instant::from_millis(1_249));
        assert!(limit.poll_passed(&mut cx).is_pending());
        sweep(Instant::from_millis(1_250));
        assert!(limit.poll_passed(&mut cx).is_ready());
    }

    #[test]
    fn what_is_announced_comes_before_its_moment_once_and_changes_no_limit() {
        let mut cx = Context::from_waker(Waker::noop());
        let limit = Deadline::unset();
        sweep(Instant::from_millis(2_000));
        let announce = |at| {
            limit.set(Instant::from_millis(3_000));
            limit.announce(Instant::from_millis(at));
        };
        announce(2_120);
        sweep(Instant::from_millis(2_050));
        assert!(!limit.take_announced());
        sweep(Instant::from_millis(2_100));
        assert!(limit.take_announced() && !limit.take_announced());
        // Too late for the sweep before it.
        announce(2_101);
        assert!(!limit.take_announced());
        sweep(Instant::from_millis(2_150));
        assert!(limit.take_announced() && limit.poll_passed(&mut cx).is_pending());
        announce(2_160);
        limit.clear();
        sweep(Instant::from_millis(2_200));
        assert!(!limit.take_announced());
    }

    #[test]
    fn an_entry_is_used_again_without_its_old_limit() {
        let first = Deadline::unset();
        first.set(Instant::ZERO);
        let index = first.index;
        drop(first);
        let second = Deadline::unset();
        assert_eq!(second.index, index);
        assert!(second.poll_passed(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}
