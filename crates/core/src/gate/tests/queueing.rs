//! The line: who is served, who waits, who is turned away, and when.

use crate::time::Duration;
use crate::units::Slots;

use super::script::check;
use super::{served, settings, with_slots};
use crate::gate::Settings;

#[test]
fn the_oldest_is_served_first() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2
         2 arrive 3
         5 ok 1 -> grant 2 0 idle waited 4
         9 ok 2 -> grant 3 0 idle waited 7
         12 ok 3",
    );
}

#[test]
fn a_full_queue_sheds_and_says_when_it_will_be_empty() {
    let settings = Settings { queue_len_max: 2, ..settings() };
    check(
        &settings,
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         200 ok 1
         200 arrive 2 -> grant 2 0 idle
         200 arrive 3
         200 arrive 4
         200 arrive 5 -> shed 5 queue-full retry 600
         400 ok 2 -> grant 3 0 idle waited 200
         400 arrive 6",
    );
}

#[test]
fn without_a_queue_a_free_slot_still_serves() {
    let settings = Settings { queue_len_max: 0, ..settings() };
    check(
        &settings,
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 -> shed 2 queue-full
         2 shut 1
         2 arrive 3 -> grant 3 0 new",
    );
}

#[test]
fn who_abandons_leaves_at_once_and_makes_room() {
    let settings = Settings { queue_len_max: 1, ..settings() };
    check(
        &settings,
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2
         2 abandon 2
         3 arrive 3
         4 abandon 2
         4 abandon 1
         9 ok 1 -> grant 3 0 idle waited 6",
    );
}

#[test]
fn the_wait_is_limited() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2
         2 arrive 3
         5001 timeout -> shed 2 queue-timeout
         5001 ok 1 -> grant 3 0 idle waited 4999",
    );
}

#[test]
fn who_is_late_is_not_granted_even_if_the_timer_did_not_ring() {
    let gate = check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2
         5001 ok 1 -> shed 2 queue-timeout retry 5001",
    );
    assert_eq!(gate.poll_timeout(), None);
}

#[test]
fn a_retry_comes_back_at_its_age_and_outside_the_bound() {
    let settings = Settings { queue_len_max: 1, ..settings() };
    check(
        &settings,
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 -> grant 2 1 new
         2 arrive 3
         3 refused 1 -> state 0 out-refused
         3 arrive 1 since=0 unsent=0
         4 arrive 4 -> shed 4 queue-full
         5 ok 2 -> grant 1 1 idle waited 2
         9 ok 1 -> grant 3 1 idle waited 7",
    );
}

#[test]
fn the_time_in_a_worker_that_died_is_not_time_in_the_queue() {
    check(
        &settings(),
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         9000 down 0 -> state 0 down
         9000 reset 1
         9000 arrive 1 since=0 sent=0 deaths=1 charged=1
         13999 ok 2 -> grant 1 1 idle waited 4999",
    );
}

#[test]
fn until_the_first_worker_is_ready_the_start_hold_limits_the_wait() {
    check(
        &settings(),
        "0 supervised 0 -> state 0 starting
         0 arrive 1
         59000 arrive 2
         60000 timeout -> shed 1 start-hold-expired
         100000 ready 0 -> state 0 up; grant 2 0 new waited 41000
         100000 arrive 3
         105000 timeout -> shed 3 queue-timeout",
    );
}

#[test]
fn who_was_held_for_the_start_waits_in_the_queue_from_the_first_worker_on() {
    check(
        &settings(),
        "0 supervised 0 -> state 0 starting
         0 arrive 1
         0 arrive 2
         20000 ready 0 -> state 0 up; grant 1 0 new waited 20000
         24000 ok 1 -> grant 2 0 idle waited 24000",
    );
}

#[test]
fn the_start_hold_is_bounded_by_count() {
    let settings = Settings { queue_len_max: 2, ..settings() };
    check(&settings, "0 arrive 1\n0 arrive 2\n0 arrive 3 -> shed 3 queue-full");
}

#[test]
fn no_worker_is_a_reason_of_its_own() {
    check(
        &settings(),
        "0 up 0
         0 down 0 -> state 0 down
         1 arrive 1
         5001 timeout -> shed 1 no-worker
         5001 arrive 2
         6000 ready 0 -> state 0 up; grant 2 0 new waited 999
         6000 arrive 3
         10000 down 0 -> state 0 down
         11000 timeout -> shed 3 queue-timeout",
    );
}

#[test]
fn a_gate_that_drains_sheds_all_but_what_runs() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2
         1 arrive 3
         2 shutdown -> shed 2 draining; shed 3 draining
         3 arrive 4 -> shed 4 draining
         3 ok 1",
    );
}

#[test]
fn slots_beyond_the_connections_are_no_slots() {
    let settings = Settings { connections_max: Slots::ONE, ..with_slots(2) };
    check(&settings, "0 up 0\n0 arrive 1 -> grant 1 0 new\n0 arrive 2");
}

#[test]
fn exchanges_are_not_given_where_the_answer_would_come_too_late() {
    let settings = Settings { answer_within: Some(Duration::from_millis(300)), ..settings() };
    let script = served([(0, 100); 30])
        + "3000 arrive 30 received=3000 -> grant 30 0 idle
         3000 arrive 31 received=3000
         3000 arrive 32 received=2750 -> shed 32 deadline-unmeetable retry 200
         3010 arrive 33 received=3010
         3200 timeout -> shed 31 deadline-unmeetable retry 200
         3200 ok 30 -> grant 33 0 idle waited 190";
    check(&settings, &script);
}
