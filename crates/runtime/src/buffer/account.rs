//! What one body has charged to the budget, given back when it is dropped.
//!
//! The one place that speaks to the budget for a body, so that what was charged and what is given
//! back cannot differ: whatever ends a body, the drop settles it. Absent: the bytes themselves.

use std::sync::Arc;
use std::task::{Context, Poll};

use spillgate_core::budget::{BodyId, Purpose, Side};

use super::storage::{Answer, Storage};

/// The charges of one body.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) storage: Arc<Storage>,
    side: Side,
    /// None until the first charge: a body without bytes is unknown to the budget.
    body: Option<BodyId>,
    charged: u64,
    /// The same in the spill folders.
    spilled: u64,
    /// What it waits for.
    wanted: Option<(u64, Purpose)>,
    /// The budget keeps a promise for it until it is complete.
    grows: bool,
}

impl Account {
    /// Nothing is charged.
    pub(super) fn new(storage: &Arc<Storage>, side: Side) -> Account {
        Account {
            storage: Arc::clone(storage),
            side,
            body: None,
            charged: 0,
            spilled: 0,
            wanted: None,
            grows: false,
        }
    }

    /// Bytes of memory charged now.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// Bytes of the spill folders charged now.
    pub(super) fn spilled(&self) -> u64 {
        self.spilled
    }

    /// Charges `bytes` more, now or not at all. A wait that is under way is not disturbed.
    pub(super) fn charge(&mut self, bytes: u64, purpose: Purpose) -> bool {
        if self.wanted.is_some() {
            return false;
        }
        let granted = self.storage.charge(&mut self.body, bytes, purpose);
        if granted {
            self.granted(bytes, purpose);
        }
        granted
    }

    /// Waits for `bytes` more. False: waited too long, or it is more than there can be.
    ///
    /// The first call of a wait fixes what it is for; later calls only look for the answer.
    pub(super) fn poll_charge(
        &mut self,
        cx: &mut Context<'_>,
        bytes: u64,
        purpose: Purpose,
    ) -> Poll<bool> {
        let (wanted, answer) = match (self.wanted, self.body) {
            (Some(wanted), Some(body)) => (wanted, self.storage.answer(body, cx.waker())),
            _ => {
                let answer = self.storage.wait(&mut self.body, bytes, purpose, cx.waker());
                ((bytes, purpose), answer)
            }
        };
        let Some(answer) = answer else {
            self.wanted = Some(wanted);
            return Poll::Pending;
        };
        self.wanted = None;
        if answer == Answer::Granted {
            self.granted(wanted.0, wanted.1);
        }
        Poll::Ready(answer == Answer::Granted)
    }

    fn granted(&mut self, bytes: u64, purpose: Purpose) {
        match purpose.is_spill() {
            true => self.spilled += bytes,
            false => self.charged += bytes,
        }
        self.grows |= matches!(purpose, Purpose::Step | Purpose::SpillStep);
    }

    /// The body will ask for nothing more.
    pub(super) fn complete(&mut self) {
        if let (Some(body), true) = (self.body, self.grows) {
            self.storage.complete(body);
        }
    }

    /// Gives back what is charged in the spill folders beyond `keep`.
    pub(super) fn shrink_spill_to(&mut self, keep: u64) {
        if self.spilled > keep {
            self.storage.give_back_spill(self.spilled - keep);
            self.spilled = keep;
        }
    }

    /// Gives back what is charged in memory beyond `keep`.
    pub(super) fn shrink_to(&mut self, keep: u64) {
        if self.charged > keep {
            self.storage.give_back(self.side, self.charged - keep);
            self.charged = keep;
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(body) = self.body {
            self.storage.close(body, self.side, self.charged, self.spilled);
        }
    }
}
