//! Who comes before whom: classes, tenants, kinds and orders.

use crate::gate::{Order, Settings};
use crate::time::Duration;

use super::script::check;
use super::{served, settings};

#[test]
fn the_more_important_is_served_first_then_the_older() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 c=bulk
         2 arrive 3 c=1
         3 arrive 4 c=critical
         4 arrive 5 c=1
         5 ok 1 -> grant 4 0 idle waited 2
         6 ok 4 -> grant 3 0 idle waited 4
         7 ok 3 -> grant 5 0 idle waited 3
         8 ok 5 -> grant 2 0 idle waited 7",
    );
}

#[test]
fn an_order_by_age_or_youth_alone_knows_no_class() {
    let arrivals = "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 c=3
         2 arrive 3 c=0
         3 arrive 4 c=1\n";
    let fifo = Settings { order: Order::Fifo, ..settings() };
    let served = "5 ok 1 -> grant 2 0 idle waited 4
         5 ok 2 -> grant 3 0 idle waited 3
         5 ok 3 -> grant 4 0 idle waited 2";
    check(&fifo, &format!("{arrivals}{served}"));
    let lifo = Settings { order: Order::Lifo, ..settings() };
    let served = "5 ok 1 -> grant 4 0 idle waited 2
         5 ok 4 -> grant 3 0 idle waited 3
         5 ok 3 -> grant 2 0 idle waited 4";
    check(&lifo, &format!("{arrivals}{served}"));
}

#[test]
fn a_full_queue_gives_the_place_of_the_least_important_and_youngest() {
    let settings = Settings { queue_len_max: 3, ..settings() };
    check(
        &settings,
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 c=3
         2 arrive 3 c=3
         3 arrive 4 c=1
         4 arrive 5 c=3 -> shed 5 queue-full
         5 arrive 6 c=2 -> shed 3 displaced
         6 arrive 7 c=0 -> shed 2 displaced
         7 arrive 8 c=2 -> shed 8 queue-full
         8 arrive 9 c=0 -> shed 6 displaced
         9 ok 1 -> grant 7 0 idle waited 3",
    );
}

#[test]
fn who_comes_back_is_served_before_everybody_younger_and_is_not_displaced() {
    let settings = Settings { queue_len_max: 1, order: Order::Lifo, ..settings() };
    check(
        &settings,
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 -> grant 2 1 new
         2 arrive 3
         3 refused 1 -> state 0 out-refused
         3 arrive 1 since=0 unsent=0
         4 arrive 4 -> shed 3 displaced
         5 ok 2 -> grant 1 1 idle waited 2
         6 ok 1 -> grant 4 1 idle waited 2",
    );
}

#[test]
fn tenants_take_turns_and_the_one_with_most_makes_room() {
    let settings = Settings { queue_len_max: 5, ..settings() };
    check(
        &settings,
        "0 up 0
         0 arrive 1 tenant=1 -> grant 1 0 new
         1 arrive 2 tenant=1
         1 arrive 3 tenant=1
         1 arrive 4 tenant=1
         1 arrive 5 tenant=1
         2 arrive 6 tenant=2
         3 arrive 7 tenant=2 -> shed 5 displaced
         4 arrive 8 tenant=1 -> shed 8 queue-full
         9 ok 1 -> grant 2 0 idle waited 8
         19 ok 2 -> grant 6 0 idle waited 17
         29 ok 6 -> grant 3 0 idle waited 28
         39 ok 3 -> grant 7 0 idle waited 36
         49 ok 7 -> grant 4 0 idle waited 48",
    );
}

#[test]
fn what_the_client_said_counts_before_anything_is_known() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 arrive 2 deadline=50
         2 arrive 3 deadline=1 -> shed 3 deadline-unmeetable
         51 timeout -> shed 2 deadline-unmeetable",
    );
}

/// Thirty fast ones and ten slow ones are known, in front of one worker.
fn known() -> String {
    // 2300 ms pass.
    served((0..40).map(|ticket| if ticket % 4 == 3 { (2, 200) } else { (1, 10) }))
}

#[test]
fn each_kind_is_held_to_its_own_time() {
    let settings = Settings { answer_within: Some(Duration::from_millis(500)), ..settings() };
    let script = known()
        + "2300 arrive 50 kind=2 received=2300 -> grant 50 0 idle
           2300 arrive 51 kind=2 received=1999 -> shed 51 deadline-unmeetable retry 57
           2300 arrive 52 kind=1 received=2000
           2490 ok 50 -> grant 52 0 idle waited 190
           2500 ok 52";
    check(&settings, &script);
}

#[test]
fn a_short_one_passes_a_long_one_that_came_a_moment_before() {
    let script = known()
        + "2300 arrive 50 kind=1 -> grant 50 0 idle
           2301 arrive 51 kind=2
           2302 arrive 52 kind=1
           2310 ok 50 -> grant 52 0 idle waited 8
           2311 ok 52 -> grant 51 0 idle waited 10";
    check(&settings(), &script);
}
