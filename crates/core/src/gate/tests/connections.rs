//! Which connection a grant uses, and the bound on connections over all shards.

use crate::gate::Settings;
use crate::id::Ticket;
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
fn a_connection_on_another_shard_is_closed_first() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 arrive 2 s=1 -> close 0 0
         2 arrive 3 s=0
         3 closed 0 0 -> grant 2 0 new waited 1
         5 ok 2 -> close 0 1
         6 closed 0 1 -> grant 3 0 new waited 4",
    );
}

#[test]
fn who_waits_for_a_close_is_out_of_the_line() {
    let gate = check(
        &settings(),
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 arrive 2 s=1 -> close 0 0
         3 arrive 3 s=1",
    );
    assert_eq!([1, 2, 3].map(|ticket| gate.is_in_line(Ticket(ticket))), [false, false, true]);
}

#[test]
fn who_waits_for_a_close_may_abandon_or_run_into_a_limit() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 arrive 2 s=1 -> close 0 0
         3 arrive 3 s=1
         4 abandon 2
         5003 timeout -> shed 3 queue-timeout retry 1
         5004 closed 0 0
         5004 arrive 4 s=1 -> grant 4 0 new",
    );
}

#[test]
fn who_waits_for_a_close_waits_on_when_the_worker_goes() {
    let settings = Settings { queue_len_max: 0, ..settings() };
    check(
        &settings,
        "0 up 0
         0 arrive 1 s=0 -> grant 1 0 new
         1 ok 1
         2 arrive 2 s=1 -> close 0 0
         3 down 0 -> state 0 down
         4 ready 0 -> state 0 up; grant 2 0 new waited 2
         5 closed 0 0
         6 ok 2",
    );
}

#[test]
fn a_connection_that_comes_back_to_the_right_shard_serves_who_waits_for_a_close() {
    check(
        &with_slots(2),
        "0 up 0
         0 arrive 1 s=1 -> grant 1 0 new
         0 arrive 2 s=0 -> grant 2 0 new
         1 ok 2
         2 arrive 3 s=1 -> close 0 0
         3 ok 1 -> grant 3 0 idle waited 1
         4 closed 0 0
         5 arrive 4 s=0 -> grant 4 0 new",
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
         5 arrive 4 s=2 -> close 0 0
         6 closed 0 0 -> grant 4 0 new waited 1",
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
