//! What all buffers of all shards share: the byte budget, and those who wait for it.
//!
//! The decisions are `spillgate_core::budget`; here are its lock, its wakers and its timer.
//!
//! Sharing rule: one short lock (`ledger`), taken for a charge and for giving back, never per byte
//! and never while waking. A body of up to 16 KiB takes it twice in its life. The lock is not held
//! across a suspension.
//!
//! Absent: the bytes themselves (each buffer owns its own) and the policy of what to charge when.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use spillgate_core::budget::{self, BodyId, Budget, Charge, Input, Output, Purpose, Side};
use spillgate_core::time::{Duration, Instant};
use spillgate_core::units::ByteSize;
use tokio::sync::Notify;

use crate::clock;
use crate::spill::{self, Spill};

/// What the storage can be told before it starts.
#[derive(Clone, Debug)]
pub struct StorageSettings {
    /// Most bytes that all buffers together may hold in memory. Default 256 MiB.
    pub memory_max: ByteSize,
    /// Bytes of one body that stay in memory; what is beyond spills. Default 1 MiB.
    pub body_memory_max: ByteSize,
    /// Longest time that a request body waits for the budget, each time. Default 5 s.
    pub body_wait_max: Duration,
    /// Where bodies spill. None: nothing spills; a request beyond `body_memory_max` then stays in
    /// memory if the budget allows, and a response is relayed.
    pub spill: Option<spill::Settings>,
}

/// The numbers of the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageView {
    /// The budget's own numbers: bytes held by each side, bodies that wait, bodies shed.
    pub budget: budget::View,
    /// Response bodies so far that found neither memory nor spill space at least once, and were
    /// therefore read only as fast as their clients took them.
    pub relayed: u64,
    /// Bodies of both kinds so far of which something was spilled.
    pub spilled: u64,
    /// The numbers of the spill folders, where there are any.
    pub spill: Option<spill::View>,
}

/// The memory of all buffers. One per process, shared by all shards.
#[derive(Debug)]
pub struct Storage {
    ledger: Mutex<Ledger>,
    /// Rung when somebody begins to wait.
    waiting: Notify,
    relayed: AtomicU64,
    spilled: AtomicU64,
    pub(super) spill: Option<Arc<Spill>>,
    /// What one body may hold in memory where there is a spill folder.
    pub(super) body_memory_max: u64,
}

/// The state behind the lock.
#[derive(Debug)]
struct Ledger {
    budget: Budget,
    next: u64,
    /// Those who wait, or were answered and have not looked yet.
    waiters: BTreeMap<BodyId, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    charge: Charge,
    answer: Option<Answer>,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The bytes are charged to the body.
    Granted,
    /// It waited too long, or has to give way.
    Shed,
}

impl Storage {
    /// A storage of which nothing is used. Makes the spill files and starts their threads.
    ///
    /// # Errors
    /// Those of the spill folders: missing, not ours to write, full; settings out of range. The
    /// text names the folder.
    pub fn new(settings: StorageSettings) -> io::Result<Arc<Storage>> {
        let spill = settings.spill.as_ref().map(Spill::open).transpose()?;
        Ok(Storage::over(&settings, spill.map(Arc::new)))
    }

    /// The same over a spill that is there.
    pub(super) fn over(settings: &StorageSettings, spill: Option<Arc<Spill>>) -> Arc<Storage> {
        let budget = Budget::new(&budget::Settings {
            memory_max: settings.memory_max,
            body_memory_max: settings.body_memory_max,
            body_wait_max: settings.body_wait_max,
            spill_max: spill.as_ref().map_or(ByteSize::ZERO, |spill| spill.view().size_max),
        });
        Arc::new(Storage {
            ledger: Mutex::new(Ledger { budget, next: 0, waiters: BTreeMap::new() }),
            waiting: Notify::new(),
            relayed: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            spill,
            body_memory_max: settings.body_memory_max.as_bytes(),
        })
    }

    /// Can bodies spill?
    pub fn spills(&self) -> bool {
        self.spill.is_some()
    }

    /// What about the spill folders is allowed but probably not meant.
    pub fn warnings(&self) -> &[spill::Warning] {
        self.spill.as_ref().map_or(&[], |spill| spill.warnings())
    }

    /// The numbers, for metrics.
    pub fn view(&self) -> StorageView {
        StorageView {
            budget: self.lock().budget.view(),
            relayed: self.relayed.load(Ordering::Relaxed),
            spilled: self.spilled.load(Ordering::Relaxed),
            spill: self.spill.as_ref().map(|spill| spill.view()),
        }
    }

    /// When somebody will have waited for the budget too long; none: nobody waits.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.lock().budget.poll_timeout()
    }

    /// Sheds who has waited too long.
    pub fn handle_timeout(&self, now: Instant) {
        let mut ledger = self.lock();
        ledger.budget.handle_timeout(now);
        let told = ledger.take_outputs(NOBODY);
        drop(ledger);
        told.wake();
    }

    /// Sheds late waiters for ever. Run it once, on the control side; buffers have no timers of
    /// their own. Cancel by dropping.
    pub async fn shed_late(self: Arc<Self>) {
        loop {
            match self.poll_timeout() {
                // A permit that is stored by an earlier ring makes this return at once: harmless.
                None => self.waiting.notified().await,
                Some(until) => {
                    tokio::time::sleep(until.since(clock::now())).await;
                    self.handle_timeout(clock::now());
                }
            }
        }
    }

    /// Charges now or not at all.
    pub(super) fn charge(&self, body: &mut Option<BodyId>, bytes: u64, purpose: Purpose) -> bool {
        let mut ledger = self.lock();
        let charge = ledger.charge(body, bytes, purpose);
        // The time does not matter to an answer at once; the budget keeps the latest that it knows.
        let told = ledger.tell(Input::Charge(charge), Instant::ZERO, charge.body);
        drop(ledger);
        told.wake();
        matches!(told.answer, Some(Output::Granted(_)))
    }

    /// Begins to wait for a charge. None: the wait goes on, and `waker` is told when it ends.
    pub(super) fn wait(
        &self,
        body: &mut Option<BodyId>,
        bytes: u64,
        purpose: Purpose,
        waker: &Waker,
    ) -> Option<Answer> {
        let now = clock::now();
        let mut ledger = self.lock();
        let charge = ledger.charge(body, bytes, purpose);
        let told = ledger.tell(Input::Wait(charge), now, charge.body);
        let answer = told.answer.map(Answer::from);
        if answer.is_none() {
            let waiter = Waiter { waker: waker.clone(), charge, answer: None };
            ledger.waiters.insert(charge.body, waiter);
        }
        drop(ledger);
        told.wake();
        if answer.is_none() {
            self.waiting.notify_one();
        }
        answer
    }

    /// Looks whether the wait of `body` has ended. None: not yet, and `waker` is told when it does.
    pub(super) fn answer(&self, body: BodyId, waker: &Waker) -> Option<Answer> {
        let mut ledger = self.lock();
        let waiter = ledger.waiters.get_mut(&body).expect("a body that waits has an entry");
        let answer = waiter.answer;
        match answer {
            None => waiter.waker.clone_from(waker),
            Some(_) => _ = ledger.waiters.remove(&body),
        }
        answer
    }

    /// The body asks for nothing more.
    pub(super) fn complete(&self, body: BodyId) {
        self.tell(Input::Complete(body));
    }

    /// Some of what a body of `side` held comes back.
    pub(super) fn give_back(&self, side: Side, bytes: u64) {
        self.tell(Input::Return { side, bytes: ByteSize::from_bytes(bytes) });
    }

    /// Some of what a body held in the spill folders comes back.
    pub(super) fn give_back_spill(&self, bytes: u64) {
        self.tell(Input::ReturnSpill { bytes: ByteSize::from_bytes(bytes) });
    }

    /// The body is gone: all that it held, in memory and in the spill folders, comes back, with
    /// what it was granted and has not seen.
    pub(super) fn close(&self, body: BodyId, side: Side, bytes: u64, spilled: u64) {
        let mut ledger = self.lock();
        let (mut bytes, mut spilled) = (ByteSize::from_bytes(bytes), ByteSize::from_bytes(spilled));
        if let Some(Waiter { answer: Some(Answer::Granted), charge, .. }) =
            ledger.waiters.remove(&body)
        {
            match charge.purpose.is_spill() {
                true => spilled += charge.bytes,
                false => bytes += charge.bytes,
            }
        }
        let told = ledger.tell(Input::Close { body, side, bytes, spilled }, Instant::ZERO, body);
        drop(ledger);
        told.wake();
    }

    /// What the kernel holds for one client changed from `before` to `after` bytes.
    fn sockets(&self, before: u64, after: u64) {
        let (before, after) = (ByteSize::from_bytes(before), ByteSize::from_bytes(after));
        self.tell(Input::Sockets { before, after });
    }

    /// Is memory short for bodies of `side`?
    pub(super) fn is_short(&self, side: Side) -> bool {
        self.lock().budget.is_short(side)
    }

    /// Counts a response body that found no place.
    pub(super) fn count_relay(&self) {
        self.relayed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a body of which something is spilled.
    pub(super) fn count_spill(&self) {
        self.spilled.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self, input: Input) {
        let told = self.lock().tell(input, Instant::ZERO, NOBODY);
        told.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nothing panics under this lock")
    }
}

/// What the kernel holds for one client, as it is counted in the budget; dropped with its
/// connection.
///
/// The kernel goes on sending what it holds after a close, uncounted.
#[derive(Debug)]
pub struct SocketBytes {
    storage: Arc<Storage>,
    counted: Cell<u64>,
}

impl SocketBytes {
    /// Nothing is held.
    pub fn new(storage: &Arc<Storage>) -> SocketBytes {
        SocketBytes { storage: Arc::clone(storage), counted: Cell::new(0) }
    }

    /// It holds `bytes`.
    pub fn count(&self, bytes: u64) {
        let before = self.counted.replace(bytes);
        if before != bytes {
            self.storage.sockets(before, bytes);
        }
    }

    /// What was counted last.
    pub fn counted(&self) -> u64 {
        self.counted.get()
    }
}

impl Drop for SocketBytes {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// No body has this number.
const NOBODY: BodyId = BodyId(u64::MAX);

/// What came out of one input: the answer for who asked, and others who have to be woken.
struct Told {
    answer: Option<Output>,
    woken: Vec<Waker>,
}

impl Told {
    /// Wakes the others. Not under the lock: a waker may run code of its own.
    fn wake(&self) {
        for waker in &self.woken {
            waker.wake_by_ref();
        }
    }
}

impl Ledger {
    fn charge(&mut self, body: &mut Option<BodyId>, bytes: u64, purpose: Purpose) -> Charge {
        let next = &mut self.next;
        let body = *body.get_or_insert_with(|| {
            *next += 1;
            BodyId(*next)
        });
        Charge { body, bytes: ByteSize::from_bytes(bytes), purpose }
    }

    fn tell(&mut self, input: Input, now: Instant, asking: BodyId) -> Told {
        self.budget.handle(input, now);
        self.take_outputs(asking)
    }

    /// Keeps the answers for those who wait, and returns the one for who is asking right now.
    fn take_outputs(&mut self, asking: BodyId) -> Told {
        if cfg!(debug_assertions) {
            self.budget.check_invariants();
        }
        let mut told = Told { answer: None, woken: Vec::new() };
        while let Some(output) = self.budget.poll_output() {
            if output.body() == asking {
                told.answer = Some(output);
            } else if let Some(waiter) = self.waiters.get_mut(&output.body()) {
                waiter.answer = Some(Answer::from(output));
                told.woken.push(waiter.waker.clone());
            }
        }
        told
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Answer {
        match output {
            Output::Granted(_) => Answer::Granted,
            Output::Full(_) | Output::Shed(_) => Answer::Shed,
        }
    }
}
