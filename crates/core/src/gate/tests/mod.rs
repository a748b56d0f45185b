//! Scripts of inputs and times in, outputs out; invariants after each step.

mod agents;
mod balance;
mod classes;
mod connections;
mod hedges;
mod limits;
mod overload;
mod queueing;
mod script;
mod workers;
mod worlds;

use crate::time::Duration;
use crate::units::{Ratio, Slots};

use super::{Balance, Limit, Order, Settings, Shedding};

/// A pool whose workers have so many slots, and as many connections.
pub(crate) fn with_slots(count: u32) -> Settings {
    let slots = Slots::new(count).expect("at least one");
    Settings { slots, connections_max: slots, ..settings() }
}

/// The script of one worker that serves exchanges one after the other, each of a kind and as long
/// as given in milliseconds. Their tickets are 0, 1, 2 and so on.
fn served(exchanges: impl IntoIterator<Item = (u64, u64)>) -> String {
    let mut script = String::from("0 up 0\n");
    let mut now = 0;
    for (ticket, (kind, time)) in exchanges.into_iter().enumerate() {
        let (way, end) = (if ticket == 0 { "new" } else { "idle" }, now + time);
        script.push_str(&format!("{now} arrive {ticket} kind={kind} -> grant {ticket} 0 {way}\n"));
        script.push_str(&format!("{end} ok {ticket}\n"));
        now = end;
    }
    script
}

/// The defaults of a pool.
pub(crate) fn settings() -> Settings {
    Settings {
        slots: Slots::ONE,
        limit: Limit::Fixed,
        limit_min: Slots::ONE,
        connections_max: Slots::ONE,
        queue_len_max: 100,
        queue_wait_max: Duration::from_secs(5),
        answer_within: None,
        answer_quantile: Ratio::from_percent(90),
        order: Order::Adaptive,
        shedding: Shedding::Ratio,
        balance: Balance::Turns,
        hash_excess_max: Ratio::from_percent(25),
        ramp_time: None,
        start_hold_max: Duration::from_secs(60),
        retry_max: 2,
        retry_budget: Ratio::from_percent(20),
        retry_budget_min: 10,
        hedge: true,
        eject_after: 5,
        eject_error_share: Ratio::from_percent(50),
        eject_time: Duration::from_secs(10),
        eject_keep_min: Ratio::from_percent(50),
        probe_interval: Duration::from_millis(100),
        probe_exchange: false,
        probe_interval_up: None,
        probe_fall: 3,
        stuck_time_max: Duration::from_secs(60),
    }
}
