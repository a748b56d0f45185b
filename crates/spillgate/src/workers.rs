//! The workers of all pools: those that others have started join their gates, the rest is started
//! and supervised. Also the ear for what the gates tell of them.
//!
//! The place where the supervisor (does it run?) and the gate (is it worth sending to?) meet.
//! Absent: decisions of either.

use std::sync::Arc;
use std::task::Poll;

use anyhow::Context;
use spillgate_core::gate::{Change, Input};
use spillgate_core::id::WorkerId;
use spillgate_core::pool::{OutReason, State};
use spillgate_core::units::Weight;
use spillgate_proxy::pool::Pool;
use spillgate_proxy::probe::Listeners;
use spillgate_proxy::settings::{CommandSettings, Workers};
use spillgate_runtime::events;

use crate::admin::status;
use crate::serving::Serving;
use crate::supervisor::{self, PoolHooks, SupervisorHandle, Surroundings};

/// The workers of all pools, in the order of the settings.
pub(crate) struct WorkersOfPools {
    names: Vec<String>,
    supervisors: Vec<Option<SupervisorHandle>>,
}

impl WorkersOfPools {
    /// Let the workers of every pool join it, and start those that are ours.
    ///
    /// Errors: a supervisor cannot start (no thread, no socket folder, addresses that cannot be).
    pub(crate) fn start(
        serving: &Serving,
        surroundings: &Surroundings,
    ) -> anyhow::Result<WorkersOfPools> {
        let mut supervisors = Vec::with_capacity(serving.pools.len());
        for pool in &serving.pools {
            supervisors.push(match &pool.settings.workers {
                Workers::Endpoints(_) => {
                    join_endpoints(pool);
                    None
                }
                Workers::Command(command) => Some(supervise(pool, command, surroundings)?),
            });
        }
        let names = serving.pools.iter().map(|pool| pool.settings.name.clone()).collect();
        Ok(WorkersOfPools { names, supervisors })
    }

    /// The supervisor of the pool with this index; none: others have started its workers.
    pub(crate) fn supervisor(&self, pool: usize) -> Option<&SupervisorHandle> {
        self.supervisors[pool].as_ref()
    }

    /// The index of the pool with this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// What to tell whoever names a pool that is none.
    pub(crate) fn unknown(&self, name: &str) -> String {
        format!("there is no pool {name}, only {}", self.names.join(", "))
    }

    /// Stop all workers that are ours, all pools at the same time, and wait for their end.
    pub(crate) async fn stop(&self) {
        let handles = self.supervisors.iter().flatten();
        all(handles.map(|handle| async { _ = handle.stop().await })).await;
    }

    /// Kill all workers that are ours, and wait for their end.
    pub(crate) async fn kill(&self) {
        all(self.supervisors.iter().flatten().map(SupervisorHandle::kill)).await;
    }
}

/// Wait for all of them together, so that the slowest pool sets the time and not the sum.
async fn all(ends: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut ends: Vec<_> = ends.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        ends.retain_mut(|end| end.as_mut().poll(cx).is_pending());
        if ends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Tell the gate of the workers that others have started.
fn join_endpoints(pool: &Pool) {
    let Workers::Endpoints(endpoints) = &pool.settings.workers else { return };
    for (id, endpoint) in (0..).map(WorkerId).zip(endpoints) {
        pool.set_endpoint(id, endpoint.clone());
        pool.change(id, Change::Join);
        let weight = pool.settings.weight(id);
        if weight != Weight::ONE {
            pool.tell_from_control(Input::Weight { worker: id, weight });
        }
    }
}

fn supervise(
    pool: &Arc<Pool>,
    command: &CommandSettings,
    surroundings: &Surroundings,
) -> anyhow::Result<SupervisorHandle> {
    let name = &pool.settings.name;
    let (member, endpoint, in_flight) = (Arc::clone(pool), Arc::clone(pool), Arc::clone(pool));
    let hooks = PoolHooks {
        member: Box::new(move |worker, change| member.change(worker, change)),
        endpoint: Box::new(move |worker, address| endpoint.set_endpoint(worker, address)),
        in_flight: Box::new(move |worker| {
            let view = in_flight.view();
            view.workers.iter().find(|known| known.id == worker).map_or(0, |known| known.in_flight)
        }),
    };
    supervisor::start(name, command.clone(), surroundings, hooks)
        .with_context(|| format!("pool.{name}: cannot start its supervisor"))
}

/// Does a worker in this state take connections? None: the state says nothing of it.
fn is_reached(state: State) -> Option<bool> {
    match state {
        State::Up => Some(true),
        // After a reset it is back with the first connection that it takes.
        State::Out(OutReason::Refused | OutReason::Reset) => Some(false),
        State::Out(_) | State::Starting | State::Draining | State::Down => None,
    }
}

impl Listeners for WorkersOfPools {
    fn state(&self, pool: usize, worker: WorkerId, state: State) {
        let name = &self.names[pool];
        events::info(
            "pool",
            format_args!("{name}: worker {} is {}", worker.0, status::state_word(state)),
        );
        if let (Some(supervisor), Some(reached)) = (&self.supervisors[pool], is_reached(state)) {
            supervisor.reached(worker, reached);
        }
    }

    fn stalled(&self, pool: usize, worker: WorkerId) {
        let name = &self.names[pool];
        events::warn("pool", format_args!("{name}: worker {} did not answer in time", worker.0));
        if let Some(supervisor) = &self.supervisors[pool] {
            supervisor.stalled(worker);
        }
    }
}
