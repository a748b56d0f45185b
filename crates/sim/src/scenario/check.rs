//! From a file to a world: names are looked up, parts that belong together are compared.
//!
//! What one value alone can have wrong was found while it was read (`value.rs`).

use std::fmt;
use std::ops::Range;

use spillgate_core::time::{Duration, Instant};
use toml::Spanned;

use crate::access_log::{self, Recorded};
use crate::curve::Curve;

use super::{Befalling, Clients, Event, Group, Load, PoolSetup, Scenario, Setup, What};

/// Time that a message takes from one thread to another: some tens of microseconds, measured on
/// ordinary machines with a wake-up.
const MAIL: Duration = Duration::from_micros(50);

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Line and column, from 1; none: it is about the whole.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "line {line}, column {column}: {}", self.message),
            None => write!(f, "{}", self.message),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Reads a file that a scenario names.
pub type ReadFile<'r> = &'r mut dyn FnMut(&str) -> std::io::Result<Vec<u8>>;

/// Something that is wrong at a place in the text.
type Fault = (Option<Range<usize>>, String);

impl Scenario {
    /// Read a scenario that names no other file.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let none = || std::io::Error::other("a recorded log can only be named in a file");
        Scenario::parse_with(text, &mut |_| Err(none()))
    }

    /// Read a scenario; the files that it names are read by `read`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn parse_with(text: &str, read: ReadFile<'_>) -> Result<Scenario, ScenarioError> {
        let parsed: Result<Scenario, toml::de::Error> = toml::from_str(text);
        let checked = match parsed {
            Ok(mut scenario) => scenario.check(read).map(|()| scenario),
            Err(error) => Err((error.span(), error.message().trim().replace('\n', ", "))),
        };
        checked.map_err(|(span, message)| {
            let place = span.map(|span| place(text, span.start));
            ScenarioError { place, message }
        })
    }

    fn check(&mut self, read: ReadFile<'_>) -> Result<(), Fault> {
        if self.game.is_some() {
            return Ok(());
        }
        if self.pool.is_empty() {
            return Err((None, "there is no pool: write [pool.app] and workers".to_owned()));
        }
        if self.clients.is_empty() {
            return Err((None, "nobody comes: write [[clients]] and a rate".to_owned()));
        }
        if self.step.is_some_and(|step| step.0 < Duration::from_micros(100)) {
            return Err((None, "'step' is at least 100us".to_owned()));
        }
        for clients in &self.clients {
            self.find_pool(clients.pool.as_ref())?;
            for wave in &clients.waves {
                positive(wave.period.0, "the period of a wave")?;
            }
            if !clients.paths.is_empty() && clients.paths.iter().all(|path| path.share.0 == 0.0) {
                return Err((
                    None,
                    "of the 'paths' of a group at least one has a share".to_owned(),
                ));
            }
            for spike in &clients.spikes {
                positive(spike.width.0, "the width of a spike")?;
            }
        }
        for (name, pool) in &self.pool {
            let Some(workers) = &pool.workers else {
                return Err((None, format!("the pool '{name}' has no workers")));
            };
            self.find_database(workers.database.as_ref())?;
        }
        for (name, pool) in self.configuration.iter().flat_map(|one| &one.pool) {
            self.find_pool(Some(name))?;
            let workers = pool.workers.as_ref();
            self.find_database(workers.and_then(|workers| workers.database.as_ref()))?;
        }
        self.event.iter().try_for_each(|event| self.befalling(event).map(|_| ()))?;
        self.clients.iter_mut().try_for_each(|clients| read_log(clients, read))
    }

    fn find_pool(&self, name: Option<&Spanned<String>>) -> Result<usize, Fault> {
        let Some(name) = name else {
            return match self.pool.len() {
                1 => Ok(0),
                _ => Err((
                    None,
                    "there are several pools: each [[clients]] and [[event]] \
                                 names its 'pool'"
                        .to_owned(),
                )),
            };
        };
        let known = self.pool.keys().position(|pool| pool == name.get_ref());
        known.ok_or_else(|| unknown(name, "pool", self.pool.keys()))
    }

    fn find_database(&self, name: Option<&Spanned<String>>) -> Result<Option<usize>, Fault> {
        let Some(name) = name else { return Ok(None) };
        let known = self.database.keys().position(|database| database == name.get_ref());
        known.map(Some).ok_or_else(|| unknown(name, "database", self.database.keys()))
    }

    fn befalling(&self, event: &Event) -> Result<Befalling, Fault> {
        let pool = self.find_pool(event.pool.as_ref())?;
        let workers = self.pool.values().nth(pool).and_then(|pool| pool.workers.as_ref());
        let workers = workers.map_or(0, |workers| workers.count.0);
        let worker = match &event.worker {
            Some(worker) if *worker.get_ref() >= workers => {
                let message = format!("the workers of that pool are 0 to {}", workers - 1);
                return Err((Some(worker.span()), message));
            }
            Some(worker) => Some(*worker.get_ref()),
            None => None,
        };
        let needs = |key: &str| {
            let what = format!("{:?}", event.what).to_lowercase();
            (None, format!("the event '{what}' at {:?} needs '{key}'", event.at.0))
        };
        let to_all = matches!(event.what, What::Crowd | What::Pause);
        if !to_all && worker.is_none() {
            return Err(needs("worker"));
        }
        let lasting = [What::Hang, What::Refuse, What::Slow, What::Pause, What::Error];
        let lasting = lasting.contains(&event.what);
        if lasting && event.lasts.is_none() {
            return Err(needs("lasts"));
        }
        if event.what == What::Crowd && event.clients.is_none() {
            return Err(needs("clients"));
        }
        if event.what == What::Report && event.says.is_none() {
            return Err(needs("says"));
        }
        if event.what == What::Load && event.percent.is_none() {
            return Err(needs("percent"));
        }
        if event.what == What::Slow && event.factor.is_none() {
            return Err(needs("factor"));
        }
        Ok(Befalling {
            at: event.at.0,
            what: event.what,
            pool,
            worker: worker.unwrap_or(0),
            lasts: event.lasts.unwrap_or_default().0,
            clients: event.clients.map_or(0, |clients| clients.0),
            factor: event.factor.map_or(1, |factor| factor.0),
            says: event.says.unwrap_or_default(),
            status: event.status.map_or(500, |status| status.0 as u16),
            percent: event.percent.map_or(100, |percent| percent.0),
        })
    }

    /// The scenario with the configuration at `index` applied.
    pub(crate) fn setup(&self, index: usize) -> Setup {
        let checked = "the scenario was checked when it was read";
        let configuration = self.configuration.get(index);
        let mut pools = Vec::new();
        for (name, pool) in &self.pool {
            let keys = configuration.and_then(|one| {
                let own = one.pool.iter().find(|(other, _)| other.get_ref() == name);
                own.map(|(_, keys)| keys.over(pool))
            });
            let keys = keys.unwrap_or_else(|| pool.clone());
            let workers = keys.workers.clone().expect(checked);
            pools.push(PoolSetup {
                name: name.clone(),
                database: self.find_database(workers.database.as_ref()).expect(checked),
                workers,
                admission: keys.admission(),
                settings: keys.settings(),
                exchange_time_max: keys.exchange_time_max(),
                retry_unavailable: keys.retry_unavailable(),
                hedge: keys.hedge(),
            });
        }
        let mut tenants = Vec::new();
        let group = |clients: &Clients| {
            // Zero is who names no tenant.
            let first_tenant = tenants.len() as u64 + 1;
            tenants.extend(tenant_names(clients));
            Group {
                pool: self.find_pool(clients.pool.as_ref()).expect(checked),
                load: load(clients),
                slo: clients.slo.or(clients.patience).map(|time| time.0),
                clients: clients.clone(),
                first_tenant,
            }
        };
        let groups = self.clients.iter().map(group).collect();
        let mail = if self.step.is_some() { Duration::ZERO } else { MAIL };
        Setup {
            name: configuration.map_or_else(String::new, |one| one.name.clone()),
            time: self.time.0,
            shards: self.shards.0 as u16,
            step: self.step.map(|step| step.0),
            mail: self.mail.map_or(mail, |mail| mail.0),
            groups,
            pools,
            databases: self.database.iter().map(|(n, d)| (n.clone(), d.capacity.0)).collect(),
            events: self.event.iter().map(|e| self.befalling(e).expect(checked)).collect(),
            tenants,
            phases: self.phases(),
        }
    }

    /// When the load steps.
    fn phases(&self) -> Vec<Duration> {
        let steps = self.clients.iter().flat_map(|clients| &clients.steps);
        let mut starts: Vec<_> =
            steps.map(|step| step.at.0).filter(|at| *at < self.time.0).collect();
        if !starts.is_empty() {
            starts.push(Duration::ZERO);
        }
        starts.sort_unstable();
        starts.dedup();
        starts
    }
}

fn tenant_names(clients: &Clients) -> Vec<String> {
    match clients.tenants.0 {
        1 => vec![clients.name.clone()],
        count => (1..=count).map(|number| format!("{} {number}", clients.name)).collect(),
    }
}

fn load(clients: &Clients) -> Load {
    if let Some(log) = &clients.log {
        let recorded = log.recorded.clone().expect("the log was read with the scenario");
        return Load::Recorded { log: recorded, speed: log.speed.0, service: log.service };
    }
    let after = |time: Duration| Instant::ZERO + time;
    let mut steps: Vec<_> =
        clients.steps.iter().map(|step| (after(step.at.0), step.rate.0)).collect();
    steps.sort_by_key(|(at, _)| *at);
    Load::Curve(Curve {
        base: clients.rate.0,
        steps,
        waves: clients.waves.iter().map(|wave| (wave.period.0, wave.rate.0)).collect(),
        spikes: clients
            .spikes
            .iter()
            .map(|spike| (after(spike.at.0), spike.width.0, spike.rate.0))
            .collect(),
    })
}

fn read_log(clients: &mut Clients, read: ReadFile<'_>) -> Result<(), Fault> {
    let Some(log) = &mut clients.log else { return Ok(()) };
    let span = Some(log.path.span());
    if log.speed.0 <= 0.0 {
        return Err((span, "the 'speed' of a log is above 0".to_owned()));
    }
    let bytes = read(log.path.get_ref());
    let bytes = bytes.map_err(|error| (span.clone(), format!("cannot read the log: {error}")))?;
    let recorded: Result<Recorded, access_log::LogError> = access_log::read(&bytes);
    log.recorded = Some(recorded.map_err(|error| (span, format!("in the log, {error}")))?);
    Ok(())
}

fn positive(time: Duration, what: &str) -> Result<(), Fault> {
    match time.is_zero() {
        true => Err((None, format!("{what} is longer than nothing"))),
        false => Ok(()),
    }
}

fn unknown<'n>(
    name: &Spanned<String>,
    kind: &str,
    known: impl Iterator<Item = &'n String>,
) -> Fault {
    let known: Vec<_> = known.map(|name| format!("'{name}'")).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    (Some(name.span()), format!("there is no {kind} '{}', only {known}", name.get_ref()))
}

/// Line and column, from 1, of the byte at `at`.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = 'x'\ntime = '1s'\n[[clients]]\nrate = 5\n";
    const POOL: &str = "[pool.app]\nworkers = { count = 2, service = '10ms' }\n";

    fn check(text: &str, expected: &str) {
        let error = Scenario::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}\n{error}");
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        check("name = 'x'\ntime = 5\n", "line 2, column 8: invalid type: integer `5`");
        check("name = 'x'\ntime = '5'\n", "line 2, column 8: '5' is not a time such as");
        check("name = 'x'\ntime = '5s'\nshards = 65\n", "line 3, column 10: 65 is not between 1");
        check("name = 'x'\nti = '5s'\n", "line 2, column 1: unknown field `ti`, expected one of");
        let text = format!("{HEAD}{POOL}[[event]]\nat = '1s'\nwhat = 'crash'\nworker = 2\n");
        check(&text, "line 10, column 10: the workers of that pool are 0 to 1");
        let text = format!("{HEAD}pool = 'web'\n{POOL}");
        check(&text, "line 5, column 8: there is no pool 'web', only 'app'");
        let text = format!("{HEAD}{POOL}slot = 1\n");
        check(&text, "line 7, column 1: unknown field `slot`, expected one of");
    }

    #[test]
    fn what_is_left_out_is_asked_for() {
        check("name = 'x'\ntime = '5s'\n", "there is no pool: write [pool.app]");
        check(&format!("name = 'x'\ntime = '5s'\n{POOL}"), "nobody comes");
        for (what, key) in [
            ("'crash'", "worker"),
            ("'pause'", "lasts"),
            ("'crowd'", "clients"),
            ("'slow'\nworker = 1\nlasts = '1s'", "factor"),
        ] {
            let text = format!("{HEAD}{POOL}[[event]]\nat = '1s'\nwhat = {what}\n");
            let error = Scenario::parse(&text).expect_err(what).to_string();
            assert!(error.ends_with(&format!("needs '{key}'")), "{error}");
        }
    }

    #[test]
    fn a_configuration_says_what_is_different() {
        let gate = "slots = 3\nqueue_len_max = 7\n";
        let others = "[[configuration]]\nname = 'a'\n[[configuration]]\nname = 'b'\n\
                      pool.app = { queue_len_max = 0 }\n";
        let scenario = Scenario::parse(&format!("{HEAD}{POOL}{gate}{others}")).expect("right");
        assert_eq!(scenario.configurations(), ["a", "b"]);
        let settings = |index| scenario.setup(index).pools[0].settings.clone();
        assert_eq!((settings(0).queue_len_max, settings(1).queue_len_max), (7, 0));
        assert_eq!(settings(1).slots.count(), 3);
    }
}
