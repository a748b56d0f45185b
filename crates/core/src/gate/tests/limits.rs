//! Limits that look at more than one exchange: deadlines with their trials, and retries.

use crate::gate::{Arrival, Attempt, Connection, Fate, Gate, Input, Outcome, Output, Returned};
use crate::gate::{Change, Claim, Reason, Settings};
use crate::id::{ShardId, Ticket, WorkerId};
use crate::time::{Duration, Instant};

use super::script::check;
use super::settings;

#[test]
fn a_second_death_is_final() {
    check(
        &settings(),
        "0 up 0 1 2
         0 arrive 1 -> grant 1 0 new
         1 reset 1 -> state 0 out-reset
         1 arrive 1 since=0 sent=0 deaths=1 charged=1 -> grant 1 1 new
         2 reset 1 -> state 1 out-reset
         2 arrive 1 since=0 sent=1,0 deaths=2 charged=2 -> shed 1 worker-failed",
    );
}

#[test]
fn retries_beyond_the_budget_are_shed_but_free_ones_are_not() {
    let arrive = |ticket: u64, how: &str| {
        format!(
            "0 arrive {ticket} -> grant {ticket} 0 new
             0 ignore {ticket}
             0 closed 0 0
             0 arrive {ticket} since=0 {how}"
        )
    };
    let mut script = String::from("0 up 0\n");
    for ticket in 0..3 {
        script.push_str(&arrive(ticket, "sent=0 charged=1"));
        script.push_str(&format!(" -> grant {ticket} 0 new\n0 shut {ticket}\n"));
    }
    script.push_str(&arrive(3, "sent=0 charged=1 -> shed 3 retry-budget\n"));
    script.push_str(&arrive(4, "unsent=0 -> grant 4 0 new\n"));
    check(&Settings { retry_budget_min: 3, ..settings() }, &script);
}

/// Workers that were slow and are fast again: how long nobody gets in.
#[test]
fn a_gate_that_turned_everybody_away_opens_again_when_the_workers_are_fast() {
    let settings = Settings { answer_within: Some(Duration::from_millis(100)), ..settings() };
    let mut gate = Gate::new(settings, Instant::ZERO);
    for change in [Change::JoinSupervised, Change::Ready] {
        gate.handle(Input::Member { worker: WorkerId(0), change }, Instant::ZERO);
    }
    let mut now = Instant::from_millis(1);
    let mut ticket = 0;
    let mut offer = |gate: &mut Gate, service: u64| {
        now = now + Duration::from_millis(10);
        ticket += 1;
        let (shard, attempt) = (ShardId(0), Attempt::First);
        let (ticket, claim) = (Ticket(ticket), Claim::default());
        let arrival = Arrival { ticket, shard, since: now, received: now, claim, attempt };
        gate.handle(Input::Arrive(arrival), now);
        gate.check_invariants();
        let mut served = false;
        while let Some(output) = gate.poll_output() {
            match output {
                Output::Grant(grant) => {
                    assert!(
                        !matches!(grant.connection, Connection::Moved(_)),
                        "there is one shard"
                    );
                    served = true;
                    now = now + Duration::from_millis(service);
                    let (outcome, connection) = (Outcome::Success, Fate::Kept);
                    let permit = grant.permit;
                    let returned = Returned { permit, outcome, fault: None, connection };
                    gate.handle(Input::Return(returned), now);
                }
                Output::Shed(shed) => assert_eq!(shed.reason, Reason::DeadlineUnmeetable),
                _ => {}
            }
        }
        (served, now)
    };
    let slow = (0..1000).filter(|_| offer(&mut gate, 300).0).count();
    assert!((30..60).contains(&slow), "{slow} of 1,000 were served by a worker that is too slow");
    let began = offer(&mut gate, 20).1;
    let first_fast = (0..1000).find(|_| (0..3).all(|_| offer(&mut gate, 20).0));
    assert!(first_fast.is_some(), "the gate stays shut");
    let shut = offer(&mut gate, 20).1.since(began);
    assert!(shut < Duration::from_secs(1), "it stayed shut for {shut:?}");
    assert_eq!((0..100).filter(|_| offer(&mut gate, 20).0).count(), 100);
}
