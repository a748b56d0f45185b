//! What takes a worker out, and what brings it back.

use crate::gate::{Settings, Tried};
use crate::id::WorkerId;
use crate::time::{Duration, Instant};

use super::script::check;
use super::{settings, with_slots};

#[test]
fn a_worker_started_by_others_serves_when_a_probe_succeeds() {
    check(
        &settings(),
        "0 join 0 -> state 0 starting
         0 timeout -> probe 0 connect
         0 arrive 1
         1 nothing 0
         101 timeout -> probe 0 connect
         102 well 0 -> state 0 up; grant 1 0 new waited 102",
    );
}

#[test]
fn a_dead_worker_is_not_a_slot() {
    // The attractor: a worker dies while twenty wait, refuses at once, and would swallow them all.
    let mut script = String::from("0 up 0 1 2\n");
    for ticket in 0..3 {
        script.push_str(&format!("0 arrive {ticket} -> grant {ticket} {ticket} new\n"));
    }
    (3..23).for_each(|ticket| script.push_str(&format!("1 arrive {ticket}\n")));
    script.push_str(
        "5 shut 0 -> grant 3 0 new waited 4
         5 refused 3 -> state 0 out-refused
         5 arrive 3 since=1 unsent=0\n",
    );
    for (turn, ticket) in (3..23).enumerate() {
        let worker = turn % 2 + 1;
        let before = if turn < 2 { worker } else { ticket - 2 };
        let waited = if ticket == 3 { 5 } else { 9 };
        script
            .push_str(&format!("10 ok {before} -> grant {ticket} {worker} idle waited {waited}\n"));
    }
    check(&settings(), &script);
}

#[test]
fn a_reset_or_a_refusal_takes_a_worker_out_until_a_probe_succeeds() {
    for (verb, state) in [("reset", "out-reset"), ("refusal", "out-refusal")] {
        let close = if verb == "refusal" { "; close 0 0" } else { "" };
        check(
            &settings(),
            &format!(
                "0 up 0
                 0 arrive 1 -> grant 1 0 new
                 10 {verb} 1 -> state 0 {state}{close}
                 20 arrive 2
                 110 timeout -> probe 0 connect
                 111 nothing 0
                 211 timeout -> probe 0 connect
                 212 well 0 -> state 0 up; {}
                 212 closed 0 0 {}",
                if close.is_empty() { "grant 2 0 new waited 192" } else { "" },
                if close.is_empty() { "" } else { "-> grant 2 0 new waited 192" },
            ),
        );
    }
}

#[test]
fn an_exchange_avoids_workers_it_has_tried_while_another_is_up() {
    check(
        &settings(),
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         1 ignore 1
         1 arrive 1 since=0 sent=0 charged=1
         2 arrive 3 -> grant 3 0 idle
         3 ok 3
         4 ok 2 -> grant 1 1 idle waited 3",
    );
    check(
        &settings(),
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         1 ignore 1
         1 arrive 1 since=0 sent=0 charged=1
         3 down 1 -> state 1 down; grant 1 0 idle waited 2",
    );
}

#[test]
fn failures_in_a_row_eject_and_a_probe_readmits_after_the_time() {
    let settings = Settings { eject_after: 2, ..settings() };
    check(
        &settings,
        "0 up 0 1
         0 arrive 9 -> grant 9 0 new
         0 arrive 1 -> grant 1 1 new
         1 error 1
         1 arrive 2 -> grant 2 1 idle
         2 ok 2
         2 arrive 3 -> grant 3 1 idle
         3 error 3
         3 arrive 4 -> grant 4 1 idle
         4 error 4 -> state 1 out-ejected; close 1 0
         4 closed 1 0
         10004 timeout -> probe 1 connect
         10005 nothing 1
         10105 timeout -> probe 1 connect
         10106 well 1 -> state 1 up
         10106 arrive 5 -> grant 5 1 new
         10107 error 5
         10107 arrive 6 -> grant 6 1 idle
         10108 error 6 -> state 1 out-ejected; close 1 0
         30108 timeout -> probe 1 connect",
    );
}

#[test]
fn ejection_leaves_a_floor_of_workers_in() {
    let settings = Settings { eject_after: 1, ..settings() };
    check(
        &settings,
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         1 error 1 -> state 0 out-ejected; close 0 0
         2 error 2
         3 arrive 3 -> grant 3 1 idle
         4 error 3",
    );
}

#[test]
fn when_nobody_is_up_the_ejected_are_asked_at_once() {
    let settings = Settings { eject_after: 1, ..settings() };
    check(
        &settings,
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         1 error 1 -> state 0 out-ejected; close 0 0
         2 arrive 2 -> grant 2 1 new
         3 refused 2 -> state 1 out-refused
         3 timeout -> probe 0 connect
         4 well 0 -> state 0 up",
    );
}

#[test]
fn a_cut_slot_stays_taken_until_the_worker_says_anything_on_a_new_connection() {
    for (answer, slow) in
        [("well", ""), ("badly", ""), ("well", "50 nothing 0\n 150 timeout -> probe 0 exchange")]
    {
        check(
            &settings(),
            &format!(
                "0 up 0
                 0 arrive 1 -> grant 1 0 new
                 0 arrive 2
                 10 cut 1
                 10 timeout -> probe 0 exchange
                 {slow}
                 160 {answer} 0 -> grant 2 0 new waited 160"
            ),
        );
    }
}

#[test]
fn a_cut_slot_takes_no_other_slot_with_it() {
    check(
        &with_slots(2),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 0 new
         0 arrive 3
         10 cut 1
         10 timeout -> probe 0 exchange
         20 ok 2 -> grant 3 0 idle waited 20
         20 arrive 4
         30 ok 3 -> grant 4 0 idle waited 10
         30 arrive 5
         40 badly 0 -> grant 5 0 new waited 10",
    );
}

#[test]
fn an_answer_to_a_question_from_before_the_cut_frees_nothing() {
    let every_second = Some(Duration::from_secs(1));
    check(
        &Settings { probe_interval_up: every_second, probe_exchange: true, ..with_slots(2) },
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1000 timeout -> probe 0 exchange slot
         1000 arrive 2
         1001 cut 1
         1002 well 0 -> grant 2 0 new waited 2
         1002 arrive 3
         1102 timeout -> probe 0 exchange
         1103 well 0 -> grant 3 0 new waited 101",
    );
}

#[test]
fn a_worker_that_is_silent_about_a_cut_slot_for_too_long_is_stuck() {
    check(
        &Settings { stuck_time_max: Duration::from_millis(300), ..settings() },
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2
         10 cut 1
         10 timeout -> probe 0 exchange
         200 nothing 0
         300 timeout -> probe 0 exchange
         310 nothing 0 -> state 0 out-stuck
         410 timeout -> probe 0 exchange
         411 badly 0
         511 timeout -> probe 0 exchange slot
         512 well 0 -> state 0 up; grant 2 0 new waited 512",
    );
}

#[test]
fn a_stuck_slot_stays_taken_until_the_worker_answers_on_a_new_connection() {
    check(
        &settings(),
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         0 arrive 3
         2000 stuck 1 -> state 0 out-stuck
         2100 timeout -> probe 0 exchange
         2200 nothing 0
         2300 timeout -> probe 0 exchange
         2301 well 0 -> state 0 up; grant 3 0 new waited 2301",
    );
}

#[test]
fn the_supervisor_s_word_frees_stuck_slots() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2
         2000 stuck 1 -> state 0 out-stuck
         2001 down 0 -> state 0 down
         2500 ready 0 -> state 0 up; grant 2 0 new waited 2500",
    );
}

#[test]
fn a_stuck_slot_is_counted_as_taken() {
    let mut gate = check(
        &with_slots(2),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 0 new
         9 stuck 1 -> state 0 out-stuck
         10 ok 2 -> close 0 0",
    );
    let view = gate.view(crate::time::Instant::from_millis(10));
    assert_eq!((view.in_flight, view.workers[0].in_flight, view.workers[0].stuck), (1, 1, 1));
}

#[test]
fn what_comes_back_from_an_earlier_process_counts_for_nothing() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 drain 0 -> state 0 draining
         2 ready 0 -> state 0 up
         2 arrive 2 -> grant 2 0 new
         2 arrive 3
         3 refused 1
         4 ok 2 -> grant 3 0 idle waited 2",
    );
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 down 0 -> state 0 down
         2 ready 0 -> state 0 up
         3 ok 1 -> close 0 0
         4 arrive 2 -> grant 2 0 new
         5 ok 2
         5 closed 0 0
         6 arrive 3 -> grant 3 0 idle",
    );
}

#[test]
fn a_drained_worker_finishes_and_gets_nothing_new() {
    check(
        &settings(),
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         1 drain 0 -> state 0 draining
         1 arrive 2 -> grant 2 1 new
         1 arrive 3
         3 ok 1 -> close 0 0
         4 ok 2 -> grant 3 1 idle waited 3",
    );
}

#[test]
fn who_waits_for_the_only_worker_to_change_over_is_held_as_for_a_start() {
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1000 arrive 2
         2000 drain 0 -> state 0 draining
         3000 arrive 3
         20000 ok 1 -> close 0 0
         20001 closed 0 0
         20002 ready 0 -> state 0 up; grant 2 0 new waited 19002
         24000 ok 2 -> grant 3 0 idle waited 21000",
    );
    check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1000 arrive 2
         2000 drain 0 -> state 0 draining
         3000 arrive 3
         61000 timeout -> shed 2 queue-timeout
         63000 timeout -> shed 3 no-worker",
    );
}

#[test]
fn a_worker_that_leaves_is_forgotten_with_its_last_permit() {
    let mut gate = check(
        &settings(),
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         1 leave 0 -> state 0 draining
         2 ok 1 -> close 0 0
         3 closed 0 0
         4 ok 2
         5 arrive 3 -> grant 3 1 idle",
    );
    assert_eq!(gate.view(crate::time::Instant::from_millis(5)).workers.len(), 1);
}

#[test]
fn a_supervised_worker_that_is_out_is_probed_like_others_but_not_before_it_is_ready() {
    check(
        &settings(),
        "0 supervised 0 -> state 0 starting
         500 ready 0 -> state 0 up
         500 arrive 1 -> grant 1 0 new
         501 refused 1 -> state 0 out-refused
         601 timeout -> probe 0 connect
         602 down 0 -> state 0 down
         603 well 0",
    );
}

#[test]
fn an_exchange_probe_takes_a_slot_like_an_exchange() {
    let settings = Settings { probe_exchange: true, ..with_slots(2) };
    check(
        &settings,
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         0 arrive 3 -> grant 3 0 new
         1 reset 1 -> state 0 out-reset
         101 timeout -> probe 0 exchange slot
         101 arrive 4 -> grant 4 1 new
         101 arrive 5
         110 well 0 -> state 0 up; grant 5 0 new waited 9",
    );
}

#[test]
fn a_busy_worker_that_is_out_is_asked_when_a_slot_comes_free() {
    let settings = Settings { probe_exchange: true, eject_after: 0, ..with_slots(2) };
    check(
        &settings,
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 0 new
         1 refusal 1 -> state 0 out-refusal; close 0 0
         2 closed 0 0
         101 timeout -> probe 0 exchange slot
         102 nothing 0
         150 ok 2 -> close 0 0
         202 timeout -> probe 0 exchange slot
         203 well 0 -> state 0 up",
    );
}

#[test]
fn the_late_end_of_one_question_is_not_the_end_of_another() {
    let every_second = Some(Duration::from_secs(1));
    let settings = Settings {
        probe_interval_up: every_second,
        probe_exchange: true,
        probe_fall: 2,
        ..with_slots(2)
    };
    let asked_again = "0 up 0 1
         1000 timeout -> probe 0 exchange slot; probe 1 exchange slot
         1010 well 1
         1200 slow 0
         2010 timeout -> probe 1 exchange slot
         2020 well 1
         2200 timeout -> probe 0 exchange slot\n";
    let second = "2310 nothing 0 -> state 0 out-probe";
    check(&settings, &format!("{asked_again}2300 late well\n{second}"));
    check(&settings, &format!("{asked_again}2300 late badly\n{second}"));
    // Its slot is stuck, so it is asked for that, and what it was asked before is moot.
    check(&settings, &format!("{asked_again}2300 late nothing -> state 0 out-stuck\n2310 well 0"));
}

#[test]
fn workers_that_are_in_are_probed_only_where_asked_for_and_when_not_busy() {
    let every_second = Some(Duration::from_secs(1));
    let settings = Settings { probe_interval_up: every_second, probe_fall: 2, ..settings() };
    check(
        &settings,
        "0 up 0 1
         0 arrive 1 -> grant 1 0 new
         1000 timeout -> probe 1 connect slot
         1001 nothing 1
         1002 ok 1
         2000 timeout -> close 0 0
         2000 closed 0 0 -> probe 0 connect slot
         2001 timeout -> probe 1 connect slot
         2001 well 0
         2002 nothing 1 -> state 1 out-probe
         2102 timeout -> probe 1 connect
         2103 well 1 -> state 1 up",
    );
}

#[test]
fn when_most_fail_their_probes_together_the_last_known_state_stays() {
    let every_second = Some(Duration::from_secs(1));
    let settings = Settings { probe_interval_up: every_second, probe_fall: 1, ..settings() };
    check(
        &settings,
        "0 up 0 1 2
         0 arrive 1 -> grant 1 0 new
         1000 timeout -> probe 1 connect slot; probe 2 connect slot
         1001 nothing 1 -> state 1 out-probe
         1002 nothing 2 -> state 1 up
         1003 refused 1 -> state 0 out-refused
         1103 timeout -> probe 0 connect
         1104 well 0 -> state 0 up
         2002 timeout -> probe 1 connect slot; probe 2 connect slot",
    );
}

#[test]
fn a_worker_that_fails_at_once_is_not_a_fast_one() {
    let mut gate = check(
        &settings(),
        "0 up 0
         0 arrive 1 -> grant 1 0 new
         1 error 1
         1 arrive 2 -> grant 2 0 idle
         51 ok 2",
    );
    let service = gate.view(Instant::from_millis(51)).service;
    assert_eq!(service.samples, 1);
    assert!(service.p50 >= Duration::from_millis(50), "{service:?}");
}

#[test]
fn an_error_is_better_elsewhere_while_the_others_are_well() {
    let two_fail = "0 up 0 1 2 3
         0 arrive 1 -> grant 1 0 new
         0 arrive 2 -> grant 2 1 new
         0 arrive 3 -> grant 3 2 new
         1 error 1
         1 error 2";
    let three_fail = format!("{two_fail}\n2 error 3");
    let no_budget = Settings { retry_budget_min: 0, ..settings() };
    let no_tries = Settings { retry_max: 0, ..settings() };
    let elsewhere = |settings: &Settings, script: &str, tried: Option<u32>| {
        let mut all = Tried::default();
        tried.into_iter().for_each(|id| all.insert(WorkerId(id)));
        check(settings, script).is_better_elsewhere(WorkerId(0), &all)
    };
    assert!(elsewhere(&settings(), "0 up 0 1", None));
    assert!(!elsewhere(&settings(), "0 up 0", None), "there is nobody else");
    assert!(!elsewhere(&settings(), "0 up 0 1", Some(1)), "the other was tried");
    assert!(elsewhere(&settings(), two_fail, None), "half of them are well");
    assert!(!elsewhere(&settings(), &three_fail, None), "most of them fail");
    assert!(!elsewhere(&no_budget, "0 up 0 1", None));
    assert!(!elsewhere(&no_tries, "0 up 0 1", None));
}
