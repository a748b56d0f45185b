//! The task that drives one supervisor machine.
//!
//! One loop: something happens, the machine is told, what it wants is done, and again. Must hold:
//! the view is published before anybody is told of what is in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use spillgate_core::id::WorkerId;
use spillgate_core::supervise::{Event, Input, Output, ProcessId, RestartError, Side, Supervisor};
use spillgate_core::time::{Duration, Instant};
use spillgate_proxy::settings::CommandSettings;
use spillgate_runtime::clock;
use spillgate_runtime::drive::{ControlHandle, Receiver, oneshot, select, sleep_until};
use spillgate_runtime::events::warn;
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::process::{ProcessEvent, Processes, Spec, WorkerOutput};

use super::address::Addresses;
use super::{PoolHooks, Seen, Shared, words};

/// Time between two looks at a worker that is drained. Each costs one short lock of its gate.
const DRAIN_LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Longest wait for the last lines of workers to be written when their pool has stopped.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// A timer that comes this late says that we stood still ourselves: stopped, or starved by others.
const HELD_UP_MIN: Duration = Duration::from_millis(250);
/// Time after that in which workers are heard before they are judged. They may have stood still
/// with us, and what they said meanwhile waits to be read.
const CATCH_UP_TIME: Duration = Duration::from_secs(1);

type Answer<T> = oneshot::Sender<T>;
type Restarted = Result<(), RestartError>;

/// What a handle asks for.
#[derive(Debug)]
pub(super) enum Command {
    Restart(Answer<Restarted>),
    Stop(Answer<u32>),
}

/// Those who wait for a restart to be over.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// For the one that runs.
    running: Vec<Answer<Restarted>>,
    /// For the one after it.
    next: Vec<Answer<Restarted>>,
}

/// The task's state.
pub(super) struct Shell {
    pub(super) pool: String,
    pub(super) settings: CommandSettings,
    pub(super) machine: Supervisor,
    pub(super) processes: Processes,
    pub(super) addresses: Addresses,
    pub(super) hooks: PoolHooks,
    pub(super) output: WorkerOutput,
    pub(super) control: ControlHandle,
    pub(super) shared: Arc<Shared>,
    /// Workers of which the machine wants to hear that they are drained.
    pub(super) draining: BTreeSet<WorkerId>,
    pub(super) restarts: Waiting,
    /// No time limit is enforced before this.
    pub(super) not_before: Instant,
    pub(super) stops: Vec<Answer<u32>>,
}

/// Whether the task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    /// All processes have ended; this many are left.
    Stopped(u32),
}

impl Shell {
    /// Start the pool and look after it until it has stopped.
    pub(super) async fn run(
        mut self,
        mut events: Receiver<ProcessEvent>,
        mut commands: Receiver<Command>,
    ) {
        let shared = self.shared.clone();
        let mut commanded = true;
        let mut flow = self.tell(Input::Start);
        while flow == Flow::On {
            let timeout = self.machine.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
            flow = select! {
                Some(event) = events.recv() => self.happened(event),
                command = commands.recv(), if commanded => {
                    commanded = command.is_some();
                    self.obey(command)
                }
                () = shared.seen_more.notified() => self.hear_what_was_seen(),
                () = sleep_until(timeout.max(self.not_before)) => self.time_out(timeout),
                () = self.next_look(), if !self.draining.is_empty() => self.look_for_drained(),
            };
        }
        if let Flow::Stopped(left) = flow {
            self.finish(left).await;
        }
    }

    /// Without a handle nobody could stop the pool any more: it is stopped.
    fn obey(&mut self, command: Option<Command>) -> Flow {
        match command {
            Some(Command::Restart(answer)) => {
                self.restarts.next.push(answer);
                self.tell(Input::Restart)
            }
            Some(Command::Stop(answer)) => {
                self.stops.push(answer);
                self.tell(Input::Stop)
            }
            None => self.tell(Input::Stop),
        }
    }

    fn happened(&mut self, event: ProcessEvent) -> Flow {
        let input = match event {
            ProcessEvent::Spawned { id, pid } => Input::Spawned { process: id, pid },
            ProcessEvent::SpawnFailed { id, error } => {
                warn("supervisor", format_args!("{}: {error}", self.name(id)));
                Input::SpawnFailed(id)
            }
            ProcessEvent::Ready(id) => Input::Ready(id),
            ProcessEvent::Heartbeat(id) => Input::Heartbeat(id),
            ProcessEvent::Leaving(id) => Input::Leaving(id),
            ProcessEvent::Exited { id, exit } => Input::Exited { process: id, exit },
            ProcessEvent::Taken { id, owner } => {
                self.say_taken(id, &owner);
                return Flow::On;
            }
        };
        self.tell(input)
    }

    fn say_taken(&self, id: ProcessId, owner: &str) {
        let name = self.name(id);
        if let Some(endpoint) = self.addresses.of(id) {
            warn("supervisor", format_args!("{name}: {endpoint} is taken by {owner}"));
        }
    }

    /// The usual mistake of a first start: a program that listens where it always did.
    fn say_where(&self, id: ProcessId) {
        let name = self.name(id);
        let (variable, endpoint) = match self.addresses.of(id) {
            Some(endpoint @ Endpoint::Tcp(_)) => ("PORT", endpoint),
            Some(endpoint @ Endpoint::Unix(_)) => ("SPILLGATE_SOCKET", endpoint),
            None => return,
        };
        let told = format_args!("{name}: it was told by {variable} to listen on {endpoint}");
        warn("supervisor", told);
    }

    fn hear_what_was_seen(&mut self) -> Flow {
        let Seen { stalled, reached } = self.shared.take_seen();
        let reached =
            reached.into_iter().map(|(worker, reached)| Input::Reached { worker, reached });
        for input in reached.chain(stalled.into_iter().map(Input::Stalled)) {
            let flow = self.tell(input);
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    async fn next_look(&self) {
        sleep_until(clock::now() + DRAIN_LOOK_INTERVAL).await;
    }

    fn look_for_drained(&mut self) -> Flow {
        for worker in self.draining.clone() {
            if (self.hooks.in_flight)(worker) > 0 {
                continue;
            }
            self.draining.remove(&worker);
            let flow = self.tell(Input::Drained(worker));
            if flow != Flow::On {
                return flow;
            }
        }
        Flow::On
    }

    /// The moment `due` has come, maybe long ago.
    fn time_out(&mut self, due: Instant) -> Flow {
        let now = clock::now();
        if now.since(due.max(self.not_before)) >= HELD_UP_MIN {
            self.not_before = now + CATCH_UP_TIME;
            return Flow::On;
        }
        self.machine.handle_timeout(now);
        self.carry_out()
    }

    fn tell(&mut self, input: Input) -> Flow {
        self.machine.handle(input, clock::now());
        self.carry_out()
    }

    /// Do what the machine wants done, until it wants nothing more.
    fn carry_out(&mut self) -> Flow {
        if cfg!(debug_assertions) {
            self.machine.check_invariants();
        }
        // First, so that whoever is told of something finds it in the view.
        self.shared.publish(self.machine.view());
        let mut flow = Flow::On;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Spawn { process, side } => self.spawn(process, side),
                Output::Signal { process, signal } => self.processes.signal(process, signal),
                Output::Member { worker, change } => (self.hooks.member)(worker, change),
                Output::Endpoint(process) => self.reach(process),
                Output::AwaitDrained(worker) => drop(self.draining.insert(worker)),
                Output::Event(event) => self.note(&event),
                Output::AllStopped { left } => flow = Flow::Stopped(left),
            }
        }
        flow
    }

    fn reach(&self, process: ProcessId) {
        if let Some(endpoint) = self.addresses.of(process) {
            (self.hooks.endpoint)(process.worker, endpoint.clone());
        }
    }

    fn spawn(&mut self, id: ProcessId, side: Side) {
        let asked = self.addresses.give(id, side).and_then(|endpoint| {
            let spec = Spec {
                id,
                pool: self.pool.clone(),
                command: self.settings.command.clone(),
                directory: self.settings.directory.clone(),
                environment: self.settings.environment.clone(),
                endpoint,
                heartbeat_time_max: self.settings.supervise.heartbeat_time_max,
            };
            self.processes.spawn(spec).map_err(std::io::Error::other)
        });
        if let Err(error) = asked {
            warn("supervisor", format_args!("{}: {error}", self.name(id)));
            self.machine.handle(Input::SpawnFailed(id), clock::now());
            self.shared.publish(self.machine.view());
        }
    }

    fn note(&mut self, event: &Event) {
        words::log(&self.pool, event);
        match event {
            Event::ReadyLate(id) => self.say_where(*id),
            Event::Ended { process, .. } => self.addresses.take_back(*process),
            Event::RestartBegan => self.restarts.running.append(&mut self.restarts.next),
            Event::RestartDone => answer_all(&mut self.restarts.running, Ok(())),
            Event::RestartFailed { error, .. } => self.fail_restarts(*error),
            _ => {}
        }
    }

    /// A restart that fails takes the one asked for after it along.
    fn fail_restarts(&mut self, error: RestartError) {
        answer_all(&mut self.restarts.running, Err(error));
        answer_all(&mut self.restarts.next, Err(error));
    }

    async fn finish(mut self, left: u32) {
        let output = self.output.clone();
        let flush = self.control.spawn_blocking(move || output.flush(FLUSH_TIME_MAX));
        // A reader that is stuck costs lines, not the stop.
        let _ = flush.await;
        self.addresses.clear();
        self.fail_restarts(RestartError::Stopping);
        answer_all(&mut self.stops, left);
    }

    fn name(&self, id: ProcessId) -> String {
        words::name(&self.pool, id)
    }
}

fn answer_all<T: Copy>(waiting: &mut Vec<Answer<T>>, answer: T) {
    for waiting in waiting.drain(..) {
        // Whoever asked may have stopped waiting.
        let _ = waiting.send(answer);
    }
}
