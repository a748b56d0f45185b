//! What became of the crowd's requests, by phase and in the last moments.
//!
//! A request belongs to the phase in which it was due. Times count from that moment, not from the
//! sending, so that a slow sender would make them worse and never better.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use spillgate_core::time::Instant;

use super::client::{Answer, Lost};
use super::plan::{ANSWER_WITHIN, PHASES};

/// How far back the live table looks.
pub(super) const RECENT: Duration = Duration::from_secs(2);

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A worker answered, after this time.
    Answered(Duration),
    /// Spillgate said that it cannot be served, and why.
    Shed(String),
    /// Anything else.
    Failed(String),
}

impl End {
    /// What `answer`, which took `time`, means for whoever asked.
    pub(super) fn of(answer: Result<Answer, Lost>, time: Duration) -> End {
        match answer {
            Ok(Answer { status: 503, reason: Some(reason), .. }) => End::Shed(reason),
            Ok(Answer { status: 200, reason: None, .. }) => End::Answered(time),
            Ok(Answer { status, reason, .. }) => {
                End::Failed(reason.unwrap_or_else(|| format!("status_{status}")))
            }
            Err(lost) => End::Failed(lost.word().to_owned()),
        }
    }
}

/// The requests of one phase, or of the last moments.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    /// Requests that were due.
    pub(super) offered: u64,
    /// Answers of workers.
    pub(super) answered: u64,
    /// Those of them that came within [`ANSWER_WITHIN`].
    pub(super) in_time: u64,
    /// By reason.
    pub(super) shed: BTreeMap<String, u64>,
    /// By reason.
    pub(super) failed: BTreeMap<String, u64>,
    /// Of answers.
    pub(super) times: Vec<Duration>,
}

impl Count {
    fn add(&mut self, end: &End) {
        match end {
            End::Answered(time) => {
                self.answered += 1;
                self.in_time += u64::from(*time <= ANSWER_WITHIN);
                self.times.push(*time);
            }
            End::Shed(reason) => *self.shed.entry(reason.clone()).or_default() += 1,
            End::Failed(reason) => *self.failed.entry(reason.clone()).or_default() += 1,
        }
    }

    /// All sheds.
    pub(super) fn shed_sum(&self) -> u64 {
        self.shed.values().sum()
    }

    /// All failures.
    pub(super) fn failed_sum(&self) -> u64 {
        self.failed.values().sum()
    }

    /// This many per cent of the answers took at most so long; none without answers.
    pub(super) fn quantile(&self, percent: usize) -> Option<Duration> {
        let mut times = self.times.clone();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        Some(times[(times.len() * percent / 100).min(last)])
    }
}

/// What became of all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Pages, by phase.
    pub(super) phases: [Count; PHASES.len()],
    /// Uploads.
    pub(super) uploads: Count,
    dues: VecDeque<Instant>,
    ends: VecDeque<(Instant, End)>,
}

impl Tally {
    /// A page is due.
    pub(super) fn offer(&mut self, phase: usize, now: Instant) {
        self.phases[phase].offered += 1;
        self.dues.push_back(now);
    }

    /// It ended.
    pub(super) fn end(&mut self, phase: usize, end: End, now: Instant) {
        self.phases[phase].add(&end);
        self.ends.push_back((now, end));
    }

    /// An upload began.
    pub(super) fn offer_upload(&mut self) {
        self.uploads.offered += 1;
    }

    /// It ended.
    pub(super) fn end_upload(&mut self, end: &End) {
        self.uploads.add(end);
    }

    /// Pages of the last [`RECENT`].
    pub(super) fn recent(&mut self, now: Instant) -> Count {
        self.dues.retain(|at| now.since(*at) < RECENT);
        self.ends.retain(|(at, _)| now.since(*at) < RECENT);
        let mut count = Count { offered: self.dues.len() as u64, ..Count::default() };
        for (_, end) in &self.ends {
            count.add(end);
        }
        count
    }

    /// Failed requests of all kinds.
    pub(super) fn failed(&self) -> u64 {
        self.phases.iter().chain([&self.uploads]).map(Count::failed_sum).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, reason: Option<&str>) -> Result<Answer, Lost> {
        Ok(Answer { status, reason: reason.map(String::from), body: Vec::new() })
    }

    #[test]
    fn only_a_503_of_spillgate_is_a_shed() {
        let time = Duration::from_millis(70);
        let check = |answer, wanted| assert_eq!(End::of(answer, time), wanted);
        check(answer(200, None), End::Answered(time));
        check(answer(503, Some("queue_full")), End::Shed("queue_full".into()));
        check(answer(503, None), End::Failed("status_503".into()));
        check(answer(502, Some("worker_failed")), End::Failed("worker_failed".into()));
        check(Err(Lost::Broken), End::Failed("broken_off".into()));
    }

    #[test]
    fn what_is_old_is_not_recent() {
        let mut tally = Tally::default();
        for at in [0, 1500, 1900] {
            tally.offer(0, Instant::from_millis(at));
            let time = Duration::from_millis(900 + at);
            tally.end(0, End::Answered(time), Instant::from_millis(at));
        }
        let recent = tally.recent(Instant::from_millis(2000));
        assert_eq!((recent.offered, recent.answered, recent.in_time), (2, 2, 0));
        assert_eq!(recent.quantile(99), Some(Duration::from_millis(2800)));
        assert_eq!((tally.phases[0].offered, tally.phases[0].in_time), (3, 1));
        assert_eq!(Count::default().quantile(50), None);
    }
}
