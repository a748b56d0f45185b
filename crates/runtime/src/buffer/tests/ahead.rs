//! Tails that are written ahead, and bytes that stay on disk until they can be sent.

use super::spilling::{check_charge, drain, fill, is_clean, on_double, run};
use super::*;
use crate::buffer::spilled::STAGE;
use crate::clock;

const MIB: u64 = 1 << 20;

fn written(storage: &Storage) -> u64 {
    storage.view().spill.expect("there is a folder").written.as_bytes()
}

fn failed(storage: &Storage) -> u64 {
    storage.view().spill.expect("there is a folder").failed
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begin = clock::now();
    while !is_so() {
        assert!(clock::now().since(begin) < Duration::from_secs(20), "it never comes");
        std::thread::yield_now();
    }
}

/// A request that has nearly all that may be held of what could spill.
fn hog(storage: &Arc<Storage>) -> Buffer {
    let mut hog = Buffer::request(storage, None);
    run(fill(&mut hog, 99, 330_000, 10_000)).expect("there is room");
    assert!(!hog.is_spilled() && storage.is_short(Side::Intake));
    hog
}

async fn trickle(buffer: &mut Buffer, from: u64, len: u64) -> Result<(), BufferError> {
    for position in (from..from + len).step_by(500) {
        let step = (from + len - position).min(500) as usize;
        buffer.append_all(&body(1, position, step)).await?;
        check_charge(buffer);
    }
    Ok(())
}

#[test]
fn a_tail_is_written_ahead_only_where_memory_is_short() {
    for (short, ahead) in [(false, 0), (true, STAGE / 2)] {
        let (storage, _knobs) = on_double(1000 << 10, 64 << 10, 64 * MIB);
        let other = (0..if short { 5 } else { 0 }).map(|_| {
            let mut other = Buffer::request(&storage, Some(64 << 10));
            run(fill(&mut other, 7, 64 << 10, 10_000)).expect("there is room");
            other
        });
        let other: Vec<Buffer> = other.collect();
        assert_eq!(storage.is_short(Side::Intake), short);
        let mut buffer = Buffer::request(&storage, None);
        let first = if short { STAGE } else { 64 << 10 };
        run(trickle(&mut buffer, 0, first + 1)).expect("there is room");
        assert!(buffer.is_spilled());
        wait_until(|| written(&storage) == first);
        run(trickle(&mut buffer, first + 1, STAGE / 2)).expect("there is room");
        wait_until(|| written(&storage) >= first + ahead);
        assert!(written(&storage) <= first + ahead + 500, "{short}");
        run(trickle(&mut buffer, first + 1 + STAGE / 2, 100_000)).expect("there is room");
        buffer.finish();
        for _ in 0..2 {
            buffer.rewind();
            let len = buffer.len();
            run(drain(&mut buffer, 1, 0, len)).expect("nothing is lost");
        }
        drop((buffer, other));
        assert!(is_clean(&storage));
    }
}

#[test]
fn requests_that_fit_into_a_third_of_the_budget_touch_no_disk() {
    let (storage, _knobs) = on_double(4 * MIB, MIB, 64 * MIB);
    let mut bodies: Vec<_> = (0..20).map(|_| Buffer::request(&storage, Some(64 << 10))).collect();
    for position in (0..64 << 10).step_by(1024) {
        for buffer in &mut bodies {
            assert_eq!(buffer.try_append(&body(1, position, 1024)), Ok(1024));
        }
    }
    assert_eq!((storage.view().spilled, written(&storage)), (0, 0));
}

#[test]
fn the_end_of_a_request_of_known_length_is_not_written_ahead() {
    let (storage, _knobs) = on_double(1000 << 10, MIB, 64 * MIB);
    let _hog = hog(&storage);
    let len = STAGE + STAGE / 2;
    let mut buffer = Buffer::request(&storage, Some(len));
    run(trickle(&mut buffer, 0, len)).expect("there is room");
    buffer.finish();
    run(drain(&mut buffer, 1, 0, len)).expect("it is there");
    assert_eq!(written(&storage), STAGE);
}

#[test]
fn a_write_ahead_on_a_full_disk_loses_nothing_and_is_a_clear_error() {
    // What comes after the write that fails, and whether memory is enough for it.
    for (rest, fits) in [(0, true), (5000, true), (100_000, false)] {
        let (storage, knobs) = on_double(1000 << 10, MIB, 64 * MIB);
        let hog = hog(&storage);
        knobs.set(|state| state.full_at = Some(STAGE + 1000));
        let mut buffer = Buffer::request(&storage, None);
        run(trickle(&mut buffer, 0, STAGE + 1)).expect("there is room");
        wait_until(|| written(&storage) == STAGE);
        run(trickle(&mut buffer, STAGE + 1, STAGE / 2)).expect("there is room");
        wait_until(|| failed(&storage) == 1);
        let came = STAGE + 1 + STAGE / 2;
        let end = run(trickle(&mut buffer, came, rest));
        assert_eq!(end, if fits { Ok(()) } else { Err(BufferError::SpillFull) }, "{rest}");
        buffer.finish();
        if fits {
            for _ in 0..2 {
                buffer.rewind();
                run(drain(&mut buffer, 1, 0, came + rest)).expect("nothing is lost");
            }
        }
        drop((buffer, hog));
        assert!(is_clean(&storage));
    }
}

#[test]
fn a_whole_response_goes_to_disk_to_its_end_where_memory_is_short_and_comes_back() {
    for full_at in [None, Some(40_000)] {
        let (storage, knobs) = on_double(200 << 10, MIB, 64 * MIB);
        let mut buffer = Buffer::response(&storage);
        let (mut len, mut cx) = (0, Context::from_waker(Waker::noop()));
        while len < 110_000 {
            let piece = body(1, len, 10_000);
            len += run(poll_fn(|cx| buffer.poll_append(cx, &piece))).expect("room") as u64;
        }
        assert!(storage.is_short(Side::Collect));
        let before = written(&storage);
        knobs.set(|state| state.full_at = full_at);
        buffer.finish();
        wait_until(|| written(&storage) > before || failed(&storage) > 0);
        assert!(buffer.is_away() && buffer.chunk().is_empty());
        // Its load is begun, and may have ended.
        _ = buffer.poll_chunk(&mut cx);
        assert!(!buffer.is_away(), "no load is begun twice");
        run(drain(&mut buffer, 1, 0, len)).expect("nothing is lost");
        assert!(!buffer.is_away(), "all of it was read");
        drop(buffer);
        assert!(is_clean(&storage));
    }
}
