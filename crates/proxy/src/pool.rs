//! One pool as the whole process shares it: its gate behind a lock, and where its workers are.
//!
//! Sharing rule: the gate's lock is held for one decision and the sending of its outputs to
//! mailboxes, never over a wait. A mailbox's own lock is only taken inside it, never around it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spillgate_core::gate::{
    Change, Class, Connection, Grant, Input, Output, Probe, Reason, Shed, Tried, View, Withheld,
};
use spillgate_core::id::{ShardId, Ticket, WorkerId};
use spillgate_core::pool::State;
use spillgate_core::time::{Duration, Instant};
use spillgate_runtime::events::Recording;
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::shard::Mailbox;
use spillgate_runtime::{clock, events};

use crate::agent::Asked;
use crate::idle::Moved;
use crate::settings::PoolSettings;
use crate::shard::ShardMessage;
use crate::traced::Traced;

/// What the gates want from the control side.
#[derive(Debug)]
pub enum ControlMessage {
    /// Ask a worker.
    Probe {
        /// Index of the pool.
        pool: usize,
        /// The question.
        probe: Probe,
    },
    /// A worker's state changed.
    State {
        /// Index of the pool.
        pool: usize,
        /// The worker.
        worker: WorkerId,
        /// Its new state.
        state: State,
    },
    /// A gate's next timeout is earlier than it was.
    Timer {
        /// Index of the pool.
        pool: usize,
    },
}

/// An answer of the gate to one exchange.
#[derive(Debug)]
pub enum Decision {
    /// It has a permit, and perhaps the connection that another shard has handed over with it.
    Granted(Grant, Option<Box<Moved>>),
    /// It is turned away.
    Shed(Shed),
    /// It asked for a second try, and gets none.
    Withheld(Withheld),
}

/// One pool.
pub struct Pool {
    /// Index in the settings.
    pub index: usize,
    /// Its settings.
    pub settings: PoolSettings,
    gate: Mutex<Traced>,
    members: Mutex<Vec<Member>>,
    /// What came of asking the agents, for whoever looks.
    asked: Mutex<BTreeMap<WorkerId, Asked>>,
    mailboxes: Arc<Mailboxes>,
    /// The timeout for which the control side is set, in nanoseconds.
    armed: AtomicU64,
}

/// Where the shards and the control side get their messages.
pub struct Mailboxes {
    /// By shard.
    pub shards: Vec<Mailbox<ShardMessage>>,
    /// The control side's.
    pub control: Mailbox<ControlMessage>,
}

#[derive(Clone, Debug)]
struct Member {
    endpoint: Option<Endpoint>,
    /// Counts the processes that have served under this id: connections to an earlier one are
    /// unfit.
    generation: u64,
    /// It let nobody connect when it was asked last.
    silent: bool,
}

impl Pool {
    /// A pool without workers.
    pub fn new(index: usize, settings: PoolSettings, mailboxes: Arc<Mailboxes>) -> Pool {
        let gate = Traced::new(settings.gate.clone(), clock::now());
        Pool {
            index,
            settings,
            gate: Mutex::new(gate),
            members: Mutex::new(Vec::new()),
            asked: Mutex::default(),
            mailboxes,
            armed: AtomicU64::new(u64::MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Traced> {
        // A panic inside the gate broke one decision; its invariants are checked by tests, and the
        // other exchanges of the pool are better served than not.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tell the gate something. Outputs for others are sent on; those for `shard` are handed to
    /// `local`, after the lock is given back.
    pub fn tell(
        &self,
        input: Input,
        now: Instant,
        shard: Option<ShardId>,
        local: &mut dyn FnMut(ShardMessage),
    ) {
        let mut ours = Ours::default();
        let timeout = {
            let mut gate = self.lock();
            gate.handle(input, now);
            self.send_on(&mut gate, shard, &mut ours);
            gate.poll_timeout()
        };
        ours.into_iter().for_each(local);
        self.arm(timeout);
    }

    /// Tell the gate something from the control side.
    pub fn tell_from_control(&self, input: Input) {
        self.tell(input, clock::now(), None, &mut |_| {});
    }

    /// The gate's time has come.
    pub fn handle_timeout(&self) {
        let mut gate = self.lock();
        gate.handle_timeout(clock::now());
        self.send_on(&mut gate, None, &mut Ours::default());
    }

    /// When [`Pool::handle_timeout`] must be called next; notes that the caller waits for it.
    pub fn next_timeout(&self) -> Option<Instant> {
        let timeout = self.lock().poll_timeout();
        let armed = timeout.map_or(u64::MAX, Instant::as_nanos);
        self.armed.store(armed, Ordering::Release);
        timeout
    }

    fn arm(&self, timeout: Option<Instant>) {
        let Some(at) = timeout else { return };
        if at.as_nanos() < self.armed.load(Ordering::Acquire)
            && self.armed.fetch_min(at.as_nanos(), Ordering::AcqRel) > at.as_nanos()
        {
            self.mailboxes.control.send(ControlMessage::Timer { pool: self.index });
        }
    }

    /// Take the gate's outputs: those for `shard` are kept, the others sent while the lock is held,
    /// so that each shard gets its messages in the order of the decisions.
    fn send_on(&self, gate: &mut Traced, shard: Option<ShardId>, ours: &mut Ours) {
        while let Some(output) = gate.poll_output() {
            let (to, message) = match output {
                Output::Grant(grant) => match grant.connection {
                    Connection::Moved(from) => {
                        (from, ShardMessage::HandOver { pool: self.index, grant })
                    }
                    Connection::Idle | Connection::New => {
                        (grant.shard, self.decided(Decision::Granted(grant, None)))
                    }
                },
                Output::Shed(shed) => (shed.shard, self.decided(Decision::Shed(shed))),
                Output::Withheld(withheld) => {
                    (withheld.shard, self.decided(Decision::Withheld(withheld)))
                }
                Output::CloseIdle { worker, shard } => {
                    (shard, ShardMessage::CloseIdle { pool: self.index, worker })
                }
                Output::Probe(probe) => {
                    self.mailboxes.control.send(ControlMessage::Probe { pool: self.index, probe });
                    continue;
                }
                Output::State { worker, state } => {
                    let message = ControlMessage::State { pool: self.index, worker, state };
                    self.mailboxes.control.send(message);
                    continue;
                }
            };
            if Some(to) == shard {
                ours.push(message);
            } else {
                self.send(to, message);
            }
        }
    }

    /// Pass a grant on to its shard, with what was found of its connection.
    pub(crate) fn pass_on(&self, grant: Grant, moved: Option<Box<Moved>>) {
        let shard = grant.shard;
        self.send(shard, self.decided(Decision::Granted(grant, moved)));
    }

    fn send(&self, to: ShardId, message: ShardMessage) {
        if let Some(mailbox) = self.mailboxes.shards.get(usize::from(to.0)) {
            mailbox.send(message);
        }
    }

    fn decided(&self, decision: Decision) -> ShardMessage {
        ShardMessage::Decided { pool: self.index, decision }
    }

    /// Does this exchange wait for a slot, and was it not decided about?
    pub(crate) fn is_in_line(&self, ticket: Ticket) -> bool {
        self.lock().is_in_line(ticket)
    }

    /// Is an exchange that `worker` has answered with an error better tried elsewhere?
    pub(crate) fn is_better_elsewhere(&self, worker: WorkerId, tried: &Tried) -> bool {
        self.lock().is_better_elsewhere(worker, tried)
    }

    /// Why an exchange that came now would be turned away at once, and when asking again could
    /// help, if it would be.
    pub(crate) fn shut(&self, class: Class) -> Option<(Reason, Option<Duration>)> {
        self.lock().shut(class)
    }

    /// The numbers of the gate.
    pub fn view(&self) -> View {
        self.lock().view(clock::now())
    }

    /// Say where `worker` is reached from now on. Connections to an earlier address become unfit.
    pub fn set_endpoint(&self, worker: WorkerId, endpoint: Endpoint) {
        let mut members = self.members();
        let index = worker.0 as usize;
        while members.len() <= index {
            members.push(Member { endpoint: None, generation: 0, silent: false });
        }
        members[index].endpoint = Some(endpoint);
        members[index].generation += 1;
    }

    /// Where `worker` is reached, and which of its processes that is.
    pub fn endpoint(&self, worker: WorkerId) -> Option<(Endpoint, u64)> {
        let members = self.members();
        let member = members.get(worker.0 as usize)?;
        Some((member.endpoint.clone()?, member.generation))
    }

    /// Note whether `worker` lets nobody connect; whether that has just begun.
    pub(crate) fn begins_silence(&self, worker: WorkerId, silent: bool) -> bool {
        let mut members = self.members();
        let Some(member) = members.get_mut(worker.0 as usize) else { return false };
        let before = std::mem::replace(&mut member.silent, silent);
        silent && !before
    }

    /// Which of its processes `worker` is now.
    pub fn generation(&self, worker: WorkerId) -> u64 {
        self.members().get(worker.0 as usize).map_or(0, |member| member.generation)
    }

    /// What came of asking the agents of the workers that have one.
    pub fn asked(&self) -> BTreeMap<WorkerId, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The agent of `worker` was asked.
    pub(crate) fn set_asked(&self, worker: WorkerId, asked: Asked) {
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(worker, asked);
    }

    /// Record from here on what the gate is told and decides. Before it is told anything.
    pub fn record(&self, recording: Recording) {
        let recorded = self.lock().record(&self.settings.gate, recording);
        if recorded.is_err() {
            events::warn("trace", format_args!("{}: it cannot be begun", self.settings.name));
        }
    }

    /// End the recording, if there is one, and have its last part written.
    pub fn end_record(&self) {
        let recording = self.lock().end_record();
        drop(recording);
    }

    /// A worker joined, left, or changed.
    pub fn change(&self, worker: WorkerId, change: Change) {
        self.tell_from_control(Input::Member { worker, change });
    }
}

/// What one decision means for the shard that asked. The usual one fits without an allocation.
#[derive(Default)]
struct Ours {
    first: Option<ShardMessage>,
    rest: Vec<ShardMessage>,
}

impl Ours {
    fn push(&mut self, message: ShardMessage) {
        match self.first {
            None => self.first = Some(message),
            Some(_) => self.rest.push(message),
        }
    }

    fn into_iter(self) -> impl Iterator<Item = ShardMessage> {
        self.first.into_iter().chain(self.rest)
    }
}
