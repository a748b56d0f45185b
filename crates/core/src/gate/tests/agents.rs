//! What an agent's word does to a worker: the vectors of HAProxy's agent-check.

use crate::gate::Settings;

use super::script::check;
use super::{settings, with_slots};

#[test]
fn a_percentage_is_a_share_of_the_slots() {
    check(
        &with_slots(4),
        "0 up 0
         1 agent 0 percent=75
         1 arrive 1 -> grant 1 0 new
         1 arrive 2 -> grant 2 0 new
         1 arrive 3 -> grant 3 0 new
         1 arrive 4
         2 agent 0 percent=100 -> grant 4 0 new waited 1",
    );
}

#[test]
fn zero_percent_drains_and_what_is_inside_ends() {
    check(
        &with_slots(4),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 agent 0 percent=0 -> state 0 draining
         1 arrive 2
         2 ok 1 -> close 0 0
         3 closed 0 0
         3 agent 0 percent=50 -> state 0 up; grant 2 0 new waited 2",
    );
}

#[test]
fn a_report_may_set_everything_at_once() {
    let gate = &mut check(
        &with_slots(4),
        "0 up 0
         0 agent 0 maint down -> state 0 out-maint
         1 agent 0 ready up slots=3 percent=50 -> state 0 up",
    );
    let view = gate.view(crate::time::Instant::from_millis(1));
    assert_eq!((view.slots, view.workers[0].slots), (2, 2));
}

#[test]
fn drain_stays_until_ready_whatever_else_is_said() {
    check(
        &settings(),
        "0 up 0
         1 agent 0 drain -> state 0 draining
         2 agent 0
         3 agent 0 up percent=100
         3 arrive 1
         4 agent 0 ready -> state 0 up; grant 1 0 new waited 1",
    );
}

#[test]
fn what_the_agent_set_only_the_agent_takes_back() {
    // An hour without a word of it, a new process, and probes that succeed change nothing.
    check(
        &Settings { probe_interval_up: None, ..settings() },
        "0 up 0 1
         1 agent 0 down -> state 0 out-agent
         3600001 arrive 1 -> grant 1 1 new
         3600002 down 0 -> state 0 down
         3600003 ready 0 -> state 0 out-agent
         3600004 arrive 2
         3600005 agent 0 up -> state 0 up; grant 2 0 new waited 1",
    );
}

#[test]
fn up_serves_only_if_the_probes_agree() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 agent 0 down -> state 0 out-agent
         2 refused 1 -> state 0 out-refused
         3 agent 0 up
         4 arrive 2
         102 timeout -> probe 0 connect
         103 badly 0
         203 timeout -> probe 0 connect
         204 well 0 -> state 0 up; grant 2 0 new waited 200",
    );
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 agent 0 down -> state 0 out-agent
         2 refused 1 -> state 0 out-refused
         102 timeout -> probe 0 connect
         103 well 0 -> state 0 out-agent
         104 agent 0 up -> state 0 up",
    );
}

#[test]
fn maintenance_stops_the_probes() {
    check(
        &settings(),
        "0 join 0 -> state 0 starting
         0 timeout -> probe 0 connect
         1 badly 0
         2 agent 0 maint -> state 0 out-maint
         9000 agent 0 ready -> state 0 starting
         9100 timeout -> probe 0 connect
         9101 well 0 -> state 0 up",
    );
}

#[test]
fn fewer_slots_let_what_is_inside_end() {
    check(
        &with_slots(4),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 0 new
         0 arrive 3 -> grant 3 0 new
         1 agent 0 slots=1
         1 arrive 4
         2 ok 1
         3 ok 2
         4 ok 3 -> grant 4 0 idle waited 3
         5 arrive 5
         6 agent 0 slots=0 -> grant 5 0 idle waited 1",
    );
}

#[test]
fn each_gate_grants_what_is_asked_for() {
    // Three balancers that are told of 30 slots may bring 90 exchanges: who asks knows how many
    // they are.
    let settings = with_slots(100);
    let granted = || {
        let script = "0 up 0\n0 agent 0 up slots=30\n";
        check(&settings, script).view(crate::time::Instant::ZERO).slots
    };
    assert_eq!((0..3).map(|_| granted()).sum::<u32>(), 90);
}

#[test]
fn a_stranger_s_agent_is_not_heard() {
    check(
        &settings(),
        "0 agent 7 down
         1 up 7
         2 agent 7 down -> state 7 out-agent
         3 leave 7
         4 join 7 -> state 7 starting
         4 timeout -> probe 7 connect
         5 well 7 -> state 7 up",
    );
}

#[test]
fn a_worker_that_is_too_busy_gets_fewer_and_one_more_when_it_is_well() {
    check(
        &with_slots(4),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 0 new
         0 arrive 3 -> grant 3 0 new
         0 arrive 4 -> grant 4 0 new
         10 load 0 200
         10 ok 1
         11 arrive 5
         12 ok 2
         13 ok 3 -> grant 5 0 idle waited 2
         20 arrive 6
         1010 load 0 90 -> grant 6 0 idle waited 990",
    );
}
