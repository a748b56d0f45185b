//! A bounded number of connections, in which whoever stands still makes room for whoever comes.
//!
//! For sockets that an operator must reach when things go wrong: silent connections, forgotten or
//! meant badly, hold places only until somebody wants one. What is under way is not cut off by
//! them, since it moved later than they did.
//!
//! Invariant: at most `max` places are held.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The places of one listening socket.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Those that can be asked for their place, in the order in which they got it.
    held: Vec<Held>,
    /// Counts every move of anybody: who has the lowest number stands still for longest.
    moves: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Held {
    moved: Arc<AtomicU64>,
    /// Dropped to ask for the place.
    wanted: oneshot::Sender<Infallible>,
}

/// The place of one connection, free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    moved: Arc<AtomicU64>,
    moves: Arc<AtomicU64>,
    wanted: oneshot::Receiver<Infallible>,
    was_wanted: bool,
    permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(max: usize) -> Places {
        Places { free: Arc::new(Semaphore::new(max)), held: Vec::new(), moves: Arc::default() }
    }

    /// A place for one more. Where none is free, whoever stands still for longest is asked to go,
    /// and this waits for that; where nobody can be asked, it waits for an end.
    pub(super) async fn take(&mut self) -> Place {
        self.held.retain(|held| !held.wanted.is_closed());
        if self.free.available_permits() == 0 {
            let stillest = |held: &(usize, &Held)| held.1.moved.load(Ordering::Relaxed);
            if let Some((index, _)) = self.held.iter().enumerate().min_by_key(stillest) {
                self.held.remove(index);
            }
        }
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (sender, wanted) = oneshot::channel();
        let (moved, moves) = (Arc::new(AtomicU64::new(0)), Arc::clone(&self.moves));
        self.held.push(Held { moved: Arc::clone(&moved), wanted: sender });
        let place = Place { moved, moves, wanted, was_wanted: false, permit };
        place.moved();
        place
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }
}

impl Place {
    /// Its connection does something.
    pub(super) fn moved(&self) {
        let number = self.moves.fetch_add(1, Ordering::Relaxed);
        self.moved.store(number, Ordering::Relaxed);
    }

    /// Ready when somebody else wants it: the connection is to be closed.
    pub(super) fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Asked again after it was ready, as a stream may be, the channel itself would panic.
        self.was_wanted = self.was_wanted || Pin::new(&mut self.wanted).poll(cx).is_ready();
        if self.was_wanted { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Keep it to the end, whoever wants it.
    pub(super) fn keep(self) -> OwnedSemaphorePermit {
        self.permit
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Waits until it is wanted, and goes.
    async fn go(mut place: Place) {
        poll_fn(|cx| place.poll_wanted(cx)).await;
        poll_fn(|cx| place.poll_wanted(cx)).await;
    }

    #[tokio::test]
    async fn who_stands_still_for_longest_goes_first() {
        let mut places = Places::new(3);
        let first = places.take().await;
        let second = places.take().await;
        let kept = places.take().await.keep();
        first.moved();
        assert_eq!(places.free(), 0);
        let second = tokio::spawn(go(second));
        let mut third = places.take().await;
        second.await.expect("it was asked to go");
        let first = tokio::spawn(go(first));
        let fourth = places.take().await;
        first.await.expect("it was asked to go, and not the one that is kept, nor the newer one");
        let still = poll_fn(|cx| Poll::Ready(third.poll_wanted(cx))).await;
        assert!(still.is_pending());
        drop((third, fourth, kept));
        assert_eq!(places.free(), 3);
        let _fifth = places.take().await;
        assert_eq!(places.held.len(), 1, "those that have ended are forgotten");
    }
}
