//! The story: phase after phase, what happens in each, and what came of it.
//!
//! Runs on the crowd's thread. Every wait in it is bounded, so the demo always ends; what did not
//! come about in time is told as that.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use spillgate_core::time::Instant;
use spillgate_runtime::drive;
use spillgate_runtime::shutdown::Wishes;
use spillgate_runtime::{clock, shard};

use super::crowd::Crowd;
use super::operator;
use super::place::{POOL, Place};
use super::plan::{Happening, PHASES, Phase, Plan, WORKERS, capacity};
use super::screen::{Picture, Screen};
use super::tally::{RECENT, Tally};
use crate::admin::status::{EndStatus, PoolStatus, WorkerStatus};

/// How often the table is drawn.
const TICK: Duration = Duration::from_millis(500);
/// How often something is looked for that should come about at any moment.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for all workers at the start.
const START_MAX: Duration = Duration::from_secs(30);
/// Longest wait for what a phase has begun, beyond its length.
const OVERTIME_MAX: Duration = Duration::from_secs(70);
/// Longest wait for the last answers.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// When in its phase something happens, in per cent of its length.
const HAPPENS_AT: u32 = 30;

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What became of all requests.
    pub(super) tally: Tally,
    /// The kill.
    pub(super) killed: Option<Killed>,
    /// How long the rolling restart took, or why it did not go through.
    pub(super) restarted: Option<Result<Duration, String>>,
    /// Spillgate's own count of the pool.
    pub(super) counted: Option<EndStatus>,
    /// Requests that a worker had begun and another one finished.
    pub(super) retries: u64,
    /// It was ended early.
    pub(super) interrupted: bool,
}

/// A worker that was killed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed {
    /// Its number.
    pub(super) worker: u32,
    /// The process.
    pub(super) pid: u32,
    /// Exchanges that waited at that moment.
    pub(super) waiting: u32,
    /// Time until its next process served; none: it did not in time.
    pub(super) back_after: Option<Duration>,
}

/// Goes through the plan, or as far as somebody lets it.
pub(super) async fn tell(place: &Place, plan: &Plan, screen: Screen) -> Outcome {
    let story = Rc::new(Story {
        place: place.clone(),
        plan: *plan,
        crowd: Crowd::new(place.listener()),
        screen: RefCell::new(screen),
        note: RefCell::default(),
        killed: RefCell::default(),
        restarted: RefCell::default(),
    });
    shard::spawn(Rc::clone(&story.crowd).run());
    let interrupted = drive::select! {
        () = story.play() => false,
        () = wish() => true,
    };
    story.crowd.end();
    story.settle().await;
    let pool = story.pool().await;
    Outcome {
        tally: story.crowd.tally.take(),
        killed: *story.killed.borrow(),
        restarted: story.restarted.take(),
        retries: pool.as_ref().map_or(0, |pool| pool.retries),
        counted: pool.map(|pool| pool.ends),
        interrupted,
    }
}

/// Somebody wants the program to end.
async fn wish() {
    match Wishes::listen() {
        Ok(mut wishes) => drop(wishes.next().await),
        // Then the demo ends when its time is over.
        Err(_) => std::future::pending().await,
    }
}

struct Story {
    place: Place,
    plan: Plan,
    crowd: Rc<Crowd>,
    screen: RefCell<Screen>,
    /// What happened last.
    note: RefCell<String>,
    killed: RefCell<Option<Killed>>,
    restarted: RefCell<Option<Result<Duration, String>>>,
}

impl Story {
    async fn play(self: &Rc<Self>) {
        let is_up = |worker: &WorkerStatus| worker.state == "up";
        let all_up = |pool: &PoolStatus| {
            pool.workers.len() == WORKERS as usize && pool.workers.iter().all(is_up)
        };
        self.look_for(START_MAX, |pool| all_up(pool).then_some(())).await;
        let begun = clock::now();
        for (index, phase) in PHASES.iter().enumerate() {
            self.crowd.begin(index, capacity() * phase.load);
            let length = self.plan.length(phase);
            let end = clock::now() + length;
            let (done, happened) = drive::oneshot::channel();
            let story = Rc::clone(self);
            shard::spawn(async move {
                story.happen(phase, length).await;
                // Nobody waits for it any more where it took too long.
                let _ = done.send(());
            });
            let show = self.show(index, begun, end);
            let over = async {
                shard::sleep_until(end).await;
                // What has not come about by then is told as that.
                let _ = drive::until(end + OVERTIME_MAX, happened).await;
            };
            drive::select! {
                () = over => {}
                () = show => {}
            }
            self.draw(index, begun).await;
        }
        self.crowd.end();
    }

    /// Draw until the phase is over.
    async fn show(&self, index: usize, begun: Instant, end: Instant) {
        let mut next = clock::now();
        while next < end + OVERTIME_MAX {
            next = next + TICK;
            shard::sleep_until(next).await;
            self.draw(index, begun).await;
        }
    }

    async fn draw(&self, index: usize, begun: Instant) {
        let pool = self.pool().await;
        let now = clock::now();
        let (recent, failed) = {
            let mut tally = self.crowd.tally.borrow_mut();
            (tally.recent(now), tally.failed())
        };
        let note = self.note.borrow().clone();
        let picture = Picture {
            index,
            passed: now.since(begun),
            whole: self.plan.whole(),
            recent,
            recent_span: now.since(begun).min(RECENT),
            failed,
            uploading: self.crowd.uploading.get(),
            pool: pool.as_ref(),
            note: &note,
        };
        self.screen.borrow_mut().draw(&picture);
    }

    async fn happen(self: Rc<Self>, phase: &Phase, length: Duration) {
        self.note.borrow_mut().clear();
        if phase.happening == Happening::Nothing {
            return;
        }
        let at = clock::now() + length * HAPPENS_AT / 100;
        match phase.happening {
            Happening::Nothing => {}
            // They take the whole phase.
            Happening::Uploads => self.crowd.upload(length.mul_f64(0.9)),
            Happening::Kill => {
                shard::sleep_until(at).await;
                self.kill_busy().await;
            }
            Happening::Restart => {
                shard::sleep_until(at).await;
                self.restart().await;
            }
        }
    }

    /// Kill a worker that has an exchange, and wait until its next process serves.
    async fn kill_busy(&self) {
        let busy = self.look_for(LOOK * 100, |pool| {
            let worker = pool.workers.iter().find(|worker| !worker.doing.is_empty())?;
            Some((worker.id, worker.pid?, pool.queue_len))
        });
        let Some((worker, pid, waiting)) = busy.await else { return };
        if let Err(error) = operator::kill(pid) {
            self.say(format!("worker {worker}: {error:#}"));
            return;
        }
        let at = clock::now();
        self.say(format!("kill -9 {pid}: worker {worker}, while {waiting} waited"));
        let back = self.look_for(START_MAX, |pool| {
            let worker = pool.workers.iter().find(|other| other.id == worker)?;
            (worker.state == "up" && worker.pid != Some(pid)).then_some(())
        });
        let back_after = back.await.map(|()| clock::now().since(at));
        *self.killed.borrow_mut() = Some(Killed { worker, pid, waiting, back_after });
        if let Some(time) = back_after {
            let millis = time.as_millis();
            self.say(format!("kill -9 {pid}: worker {worker} serves again after {millis} ms"));
        }
    }

    async fn restart(&self) {
        self.say(format!("spillgate ctl restart {POOL} --wait"));
        let begun = clock::now();
        let done = operator::restart(self.place.program(), &self.place.control(), POOL).await;
        let took = clock::now().since(begun);
        let millis = took.as_millis();
        self.say(match &done {
            Ok(()) => format!("spillgate ctl restart {POOL} --wait: done after {millis} ms"),
            Err(error) => format!("spillgate ctl restart {POOL} --wait: {error:#}"),
        });
        *self.restarted.borrow_mut() =
            Some(done.map(|()| took).map_err(|error| format!("{error:#}")));
    }

    fn say(&self, note: String) {
        *self.note.borrow_mut() = note;
    }

    /// Wait until every client has its answer.
    async fn settle(&self) {
        let end = clock::now() + SETTLE_MAX;
        while self.crowd.open() > 0 && clock::now() < end {
            shard::sleep_until(clock::now() + LOOK).await;
        }
    }

    async fn pool(&self) -> Option<PoolStatus> {
        operator::status(&self.place.page()).await?.pools.pop()
    }

    /// Look at the pool until `find` finds something.
    async fn look_for<T>(
        &self,
        time_max: Duration,
        find: impl Fn(&PoolStatus) -> Option<T>,
    ) -> Option<T> {
        let end = clock::now() + time_max;
        while clock::now() < end {
            if let Some(pool) = self.pool().await
                && let Some(found) = find(&pool)
            {
                return Some(found);
            }
            shard::sleep_until(clock::now() + LOOK).await;
        }
        None
    }
}
