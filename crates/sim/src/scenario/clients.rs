//! Who comes, when, for what, and what it says of itself.

use serde::Deserialize;
use spillgate_core::rng::Rng;
use spillgate_core::time::Duration;
use toml::Spanned;

use crate::access_log::Recorded;
use crate::curve;

use super::value::{self, ClassName, Count, Rate, Time};

/// A group of clients. Open loop: nobody waits for the answer of another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clients {
    /// What the report calls them. Default "clients".
    #[serde(default = "value::clients")]
    pub(crate) name: String,
    /// Where they go. Default: the only pool.
    pub(super) pool: Option<Spanned<String>>,
    /// Arrivals a second. Default 0.
    #[serde(default)]
    pub(super) rate: Rate,
    /// From these moments on another rate.
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    /// More and less by turns.
    #[serde(default)]
    pub(super) waves: Vec<Wave>,
    /// More around a moment.
    #[serde(default)]
    pub(super) spikes: Vec<Spike>,
    /// Come at random, or as evenly as they can. Default random.
    #[serde(default)]
    pub(crate) arrivals: Arrivals,
    /// Come when a recorded access log says.
    pub(super) log: Option<Log>,
    /// How long a client waits for its answer; none: for ever.
    pub(crate) patience: Option<Time>,
    /// Who gives up closes its connection, so that it is noticed. Default true.
    #[serde(default = "value::yes")]
    pub(crate) hangs_up: bool,
    /// Answers after this are of no use. Default: `patience`.
    pub(crate) slo: Option<Time>,
    /// How often a client asks again after it got no answer. Default 0.
    #[serde(default)]
    pub(crate) retries: Count<0, 100>,
    /// Time until it asks again, doubled each time; half of it is random. Default 100 ms.
    pub(crate) retry_wait: Option<Time>,
    /// Waits as long as `Retry-After` says, where that is longer. Default false.
    #[serde(default)]
    pub(crate) retry_after: bool,
    /// Percent of exchanges that must not be repeated once they were sent. Default 0.
    #[serde(default)]
    pub(crate) unsafe_percent: Count<0, 100>,
    /// How important they are, by name or by number. Default normal.
    #[serde(default)]
    pub(crate) class: ClassName,
    /// Tenants that they are of, each as often as the others. Default 0: of none.
    #[serde(default)]
    pub(crate) tenants: Count<0, 1000>,
    /// So many different users, for the cohorts; none: each client is one of its own.
    pub(crate) users: Option<Count<1, 1_000_000>>,
    /// The time within which a client says that it needs its answer (`deadline_header`).
    pub(crate) deadline: Option<Time>,
    /// What they ask for, each a kind of its own; none: whatever the workers' `service` says.
    #[serde(default)]
    pub(crate) paths: Vec<Path>,
}

/// How clients come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrivals {
    /// Each independent of the others (a Poisson process).
    #[default]
    Random,
    /// One each time that the load has summed up to one more.
    Even,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) rate: Rate,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wave {
    pub(super) rate: Rate,
    pub(super) period: Time,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spike {
    pub(super) at: Time,
    pub(super) rate: Rate,
    pub(super) width: Time,
}

/// A recorded access log as load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    /// The file; relative to the scenario's.
    pub(super) path: Spanned<String>,
    /// So many times as fast as it was. Default 1.
    #[serde(default = "value::unit")]
    pub(super) speed: Rate,
    /// Work takes as long as the log says, where it says so. Default false.
    #[serde(default)]
    pub(super) service: bool,
    #[serde(skip)]
    pub(super) recorded: Option<Recorded>,
}

/// One thing that clients ask for, and what it takes a worker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// Its name. The gate knows it as a kind, and not what it takes.
    pub(crate) path: String,
    /// How many of the clients ask for it, in parts of the sum of all shares. Default 1.
    #[serde(default = "value::unit")]
    pub(crate) share: Rate,
    #[serde(default)]
    service: Time,
    /// Percent by which that time varies to both sides, evenly. Default 0.
    #[serde(default)]
    spread_percent: Count<0, 100>,
    /// The time is random, with that mean (an exponential distribution). Default false.
    #[serde(default)]
    exponential: bool,
}

impl Clients {
    /// Which path the next client asks for; none: there are none.
    pub(crate) fn draw_path(&self, rng: &mut Rng) -> Option<u16> {
        let sum: f64 = self.paths.iter().map(|path| path.share.0).sum();
        if self.paths.is_empty() {
            return None;
        }
        let mut left = rng.unit() * sum;
        let found = self.paths.iter().position(|path| {
            left -= path.share.0;
            left < 0.0
        });
        Some(found.unwrap_or(self.paths.len() - 1) as u16)
    }
}

impl Path {
    pub(crate) fn takes(&self) -> Takes {
        let Path { service, spread_percent, exponential, .. } = *self;
        Takes { service: service.0, spread_percent: spread_percent.0, exponential }
    }
}

/// The time that an exchange takes in a worker that has room for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    pub(crate) service: Duration,
    /// Varies by so many percent to both sides, evenly.
    pub(crate) spread_percent: u32,
    /// Is random, with this mean, whatever the spread.
    pub(crate) exponential: bool,
}

impl Takes {
    /// One time.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Duration {
        let service = self.service.as_nanos() as u64;
        if self.exponential {
            let times = -curve::ln(1.0 - rng.unit());
            return Duration::from_nanos((service as f64 * times) as u64);
        }
        let spread = service / 100 * u64::from(self.spread_percent);
        Duration::from_nanos(service - spread + rng.below(2 * spread + 1))
    }
}
