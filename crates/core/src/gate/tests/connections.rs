//! Which connection a grant uses, and the bound on connections over all shards.

use crate::gate::Settings;
use crate::id::Ticket;
use crate::time::Duration;
use crate::units::Slots;

use super::script::check;
use super::{settings, with_slots};

#[test]
fn an_idle_connection_on_the_asking_shard_is_preferred() {
    check(
        &settings(),
        "0 up 0 1
         0 arrive 1 s=0 -> grant 1 0 new
         0 arrive 2 s=1 -> grant 2 1 new
         1 ok 1
         1 ok 2
         2 arrive 3 s=1 -> grant 3 1 idle
         3 ok 3
         3 arrive 4 s=1 -> grant 4 1 idle
         4 ok 4
         4 arrive 5 s=0 -> grant 5 0 idle",
    );
}

#[test]
fn a_connection_on_another_shard_is_handed_over() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 arrive 2 s=1 -> grant 2 0 moved 0
         2 arrive 3 s=0
         5 ok 2 -> grant 3 0 moved 1 waited 3
         6 ok 3
         6 arrive 4 s=0 -> grant 4 0 idle",
    );
}

#[test]
fn the_shard_that_keeps_most_hands_one_over() {
    check(
        &with_slots(3),
        "0 up 0
         0 arrive 1 s=1 -> grant 1 0 new
         0 arrive 2 s=2 -> grant 2 0 new
         0 arrive 3 s=2 -> grant 3 0 new
         1 ok 1
         1 ok 2
         1 ok 3
         2 arrive 4 s=0 -> grant 4 0 moved 2
         2 arrive 5 s=0 -> grant 5 0 moved 1
         2 arrive 6 s=0 -> grant 6 0 moved 2",
    );
}

#[test]
fn an_end_told_after_the_grant_counts_nothing_twice() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 arrive 2 s=1 -> grant 2 0 moved 0
         2 closed 0 0
         3 ok 2
         4 arrive 3 s=1 -> grant 3 0 idle",
    );
}

/// A worker of one connection that is asked every second on a new one, for which the idle one has
/// to be closed.
fn asked_every_second() -> Settings {
    let probe_interval_up = Some(Duration::from_secs(1));
    Settings { probe_interval_up, ..settings() }
}

const CLOSING: &str = "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         1000 timeout -> close 0 0
         ";

#[test]
fn who_waits_for_a_close_is_out_of_the_line() {
    let script = format!("{CLOSING} 1001 arrive 2 s=1\n 1001 arrive 3 s=1");
    let gate = check(&asked_every_second(), &script);
    assert_eq!([1, 2, 3].map(|ticket| gate.is_in_line(Ticket(ticket))), [false, false, true]);
}

#[test]
fn who_waits_for_a_close_gets_a_new_connection() {
    let script = format!(
        "{CLOSING} 1001 arrive 2 s=1
         1001 arrive 3 s=0
         1002 closed 0 0 -> grant 2 0 new waited 1
         1005 ok 2 -> grant 3 0 moved 1 waited 4"
    );
    check(&asked_every_second(), &script);
}

#[test]
fn who_waits_for_a_close_may_abandon_or_run_into_a_limit() {
    let script = format!(
        "{CLOSING} 1001 arrive 2 s=1
         1002 arrive 3 s=1
         1003 abandon 2
         6002 timeout -> shed 3 queue-timeout retry 1
         6003 closed 0 0 -> probe 0 connect slot"
    );
    check(&asked_every_second(), &script);
}

#[test]
fn who_waits_for_a_close_waits_on_when_the_worker_goes() {
    let script = format!(
        "{CLOSING} 1001 arrive 2 s=1
         1002 down 0 -> state 0 down
         1003 ready 0 -> state 0 up; grant 2 0 new waited 2
         1004 closed 0 0
         1005 ok 2"
    );
    check(&Settings { queue_len_max: 0, ..asked_every_second() }, &script);
}

#[test]
fn a_connection_that_comes_back_serves_who_waits_for_a_close() {
    let probe_interval_up = asked_every_second().probe_interval_up;
    check(
        &Settings { probe_interval_up, ..with_slots(2) },
        "0 up 0
         0 arrive 1 s=1 -> grant 1 0 new
         0 arrive 2 s=0 -> grant 2 0 new
         1 ok 2
         1000 timeout -> close 0 0
         1001 arrive 3 s=1
         1002 ok 1 -> grant 3 0 idle waited 1
         1003 closed 0 0 -> probe 0 connect slot",
    );
}

#[test]
fn with_room_for_more_connections_nothing_is_closed() {
    let settings = Settings { slots: Slots::ONE, ..with_slots(2) };
    check(
        &settings,
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         1 arrive 2 s=1 -> grant 2 0 new
         2 ok 2
         3 arrive 3 s=0 -> grant 3 0 idle
         4 ok 3
         5 arrive 4 s=2 -> grant 4 0 moved 0",
    );
}

#[test]
fn a_connection_that_the_worker_closed_makes_room() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 closed 0 0
         3 arrive 2 s=1 -> grant 2 0 new",
    );
}
