//! Second tries: when they are granted, when not, and what they leave behind.

use crate::gate::Settings;
use crate::gate::tests::{served, settings, with_slots};

use super::script::check;

/// Two workers, of which the first has served twenty exchanges of the kind 1 in 10 ms each, and the
/// second has come then. From 200 ms on.
fn warm() -> String {
    let alone = served((0..20).map(|_| (1, 10)));
    format!("{alone}200 supervised 1 -> state 1 starting\n200 ready 1 -> state 1 up\n")
}

fn warmed(script: &str) {
    check(&settings(), &(warm() + script));
}

#[test]
fn a_grant_says_after_which_time_its_kind_is_slow() {
    // Nobody else can be tried, or nothing is known of the kind, or it is off.
    warmed(
        "201 arrive 30 kind=1 -> grant 30 0 idle slow 20
         202 arrive 31 kind=2 -> grant 31 1 new
         203 ok 30
         204 drain 1 -> state 1 draining
         205 arrive 32 kind=1 -> grant 32 0 idle",
    );
    let off = Settings { hedge: false, ..settings() };
    check(&off, &(warm() + "201 arrive 30 kind=1 -> grant 30 0 idle"));
}

#[test]
fn a_second_try_is_granted_on_another_worker_and_the_loser_keeps_its_slot() {
    warmed(
        "201 arrive 30 kind=1 -> grant 30 0 idle slow 20
         221 hedge 31 kind=1 tried=0 charged=1 -> grant 31 1 new
         231 ok 31
         232 arrive 32 kind=1 -> grant 32 1 idle slow 20
         233 arrive 33 kind=1
         240 ok 30 -> grant 33 0 idle waited 7 slow 20",
    );
}

#[test]
fn a_second_try_takes_nobody_s_place() {
    // A worker with a slot for somebody else is none for who waits for another reason.
    warmed(
        "201 arrive 30 kind=1 -> grant 30 0 idle slow 20
         202 arrive 31 kind=1 -> grant 31 1 new slow 20
         221 hedge 32 kind=1 tried=0 charged=1 -> withheld 32 no-slot
         222 arrive 33 kind=1
         223 hedge 34 kind=1 tried=0 charged=1 -> withheld 34 waiting
         224 ok 31 -> grant 33 1 idle waited 2 slow 20
         225 hedge 35 kind=1 tried=0 charged=1 -> withheld 35 no-slot
         226 shutdown
         227 hedge 36 kind=1 tried=0 charged=1 -> withheld 36 draining",
    );
}

#[test]
fn nobody_is_tried_twice_at_once() {
    let two = with_slots(2);
    check(
        &two,
        "0 up 0 1
         1 arrive 0 -> grant 0 0 new
         2 hedge 1 tried=0,1 charged=1 -> withheld 1 no-slot
         3 down 1 -> state 1 down
         4 hedge 2 tried=0 charged=1 -> withheld 2 no-slot",
    );
}

#[test]
fn a_second_try_that_comes_too_late_is_not_made() {
    let hurried = Settings { answer_within: None, ..settings() };
    check(
        &hurried,
        "0 up 0 1
         1 arrive 0 deadline=50 -> grant 0 0 new
         51 hedge 1 deadline=50 tried=0 charged=1 -> withheld 1 late
         51 hedge 2 deadline=60 tried=0 charged=1 -> grant 2 1 new",
    );
}

#[test]
fn second_tries_and_retries_share_one_budget() {
    let meagre = Settings { retry_budget_min: 2, retry_max: 1, ..settings() };
    check(
        &meagre,
        "0 up 0 1
         1 arrive 0 -> grant 0 0 new
         2 hedge 1 tried=0 charged=2 -> withheld 1 retry-budget
         2 hedge 2 tried=0 charged=1 -> grant 2 1 new
         3 ok 2
         4 hedge 3 tried=0 charged=1 -> grant 3 1 idle
         5 ok 3
         6 hedge 4 tried=0 charged=1 -> withheld 4 retry-budget
         7 arrive 5 sent=0 charged=1 -> shed 5 retry-budget",
    );
}

#[test]
fn an_idle_connection_of_another_shard_is_handed_over() {
    check(
        &settings(),
        "0 up 0 1
         1 arrive 0 s=1 -> grant 0 0 new
         2 arrive 1 s=1 -> grant 1 1 new
         3 ok 1
         4 hedge 2 s=0 tried=0 charged=1 -> grant 2 1 moved 1",
    );
}
