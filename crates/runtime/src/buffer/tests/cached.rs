//! What is on disk and in the page cache, too, and large pieces of an answer.

use super::spilling::{drain, is_clean, on_double, run};
use super::*;
use crate::buffer::spilled::WRITE_MAX;
use crate::scratch::Scratch;
use crate::spill::doubles::Knobs;

const MIB: u64 = 1 << 20;

/// A storage with as many responses in memory as may stay there, and room for large pieces.
fn crowded() -> (Arc<Storage>, Arc<Knobs>, Vec<Buffer>) {
    let (storage, knobs) = on_double(8 * MIB, 64 << 10, 64 * MIB);
    let crowd: Vec<Buffer> = (0..12).map(|_| whole(&storage, &knobs, 64 << 10)).collect();
    assert!(storage.is_short(Side::Collect) && storage.view().spilled == 0);
    (storage, knobs, crowd)
}

/// A response of `len` bytes, whole, on a disk that is stalled until its end has come or as soon as
/// the response is full.
fn whole(storage: &Arc<Storage>, knobs: &Knobs, len: u64) -> Buffer {
    let mut buffer = Buffer::response(storage);
    buffer.expect_len(len);
    knobs.set(|state| state.stalled = true);
    let bytes = body(1, 0, len as usize);
    let mut done = 0;
    run(poll_fn(|cx| {
        while done < bytes.len() {
            let end = bytes.len().min(done + 50_000);
            match buffer.poll_append(cx, &bytes[done..end]) {
                Poll::Ready(count) => done += count.expect("the folder has room"),
                Poll::Pending => {
                    knobs.set(|state| state.stalled = false);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(())
    }));
    buffer.finish();
    knobs.set(|state| state.stalled = false);
    buffer
}

fn settle(buffer: &mut Buffer) {
    run(poll_fn(|cx| {
        buffer.poll_settled(cx);
        if buffer.held() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }));
}

fn calls(knobs: &Knobs) -> u32 {
    let mut calls = 0;
    knobs.set(|state| calls = state.calls);
    calls
}

#[test]
fn an_answer_is_written_in_large_pieces_and_then_holds_no_memory() {
    for len in [WRITE_MAX, 3 * WRITE_MAX, MIB + 12_345] {
        let (storage, knobs, crowd) = crowded();
        let (before, held) = (calls(&knobs), storage.view().budget.collect);
        let mut buffer = whole(&storage, &knobs, len);
        settle(&mut buffer);
        let writes = u64::from(calls(&knobs) - before);
        assert!(writes <= len.div_ceil(WRITE_MAX) + 1, "{writes} writes for {len} bytes");
        assert_eq!(storage.view().budget.collect, held, "all is given back");
        run(drain(&mut buffer, 1, 0, len)).expect("nothing is lost");
        drop((buffer, crowd));
        assert!(is_clean(&storage));
    }
}

#[test]
fn what_is_in_the_page_cache_is_copied_without_a_job() {
    let len = 2 * WRITE_MAX + 20_000;
    for short in [None, Some(700)] {
        let (storage, knobs, crowd) = crowded();
        let mut buffer = whole(&storage, &knobs, len);
        settle(&mut buffer);
        assert!(buffer.is_away());
        let mut lent = Scratch::lend();
        assert!(!buffer.copy_cached(&mut lent) && lent.is_empty(), "it may be on disk only");
        knobs.set(|state| (state.cached, state.short) = (true, short));
        let before = calls(&knobs);
        let mut position = 0;
        while buffer.is_away() {
            let mut lent = Scratch::lend();
            assert!(buffer.copy_cached(&mut lent));
            assert!(lent.bytes() == body(1, position, lent.len()), "wrong bytes at {position}");
            assert_eq!(buffer.held(), 0, "nothing is kept of it");
            // What a client does not take is copied again.
            let taken = lent.len().min(30_000);
            buffer.consume(taken);
            position += taken as u64;
        }
        assert_eq!((position, buffer.unread()), (len, 0));
        assert_eq!(calls(&knobs), before, "no thread was asked");
        assert_eq!(storage.view().spill.expect("there is a folder").used, ByteSize::ZERO);
        drop((buffer, crowd));
        assert!(is_clean(&storage));
    }
}

#[test]
fn what_is_being_written_is_waited_for_without_memory() {
    let (storage, knobs) = on_double(MIB, 64 << 10, 64 * MIB);
    let mut buffer = Buffer::response(&storage);
    buffer.expect_len(WRITE_MAX);
    knobs.set(|state| state.stalled = true);
    let bytes = body(1, 0, WRITE_MAX as usize);
    let mut cx = Context::from_waker(Waker::noop());
    let mut done = 0;
    while let Poll::Ready(count) = buffer.poll_append(&mut cx, &bytes[done..]) {
        done += count.expect("the folder has room");
        if done == bytes.len() {
            buffer.finish();
            break;
        }
    }
    assert!(!buffer.is_away() && buffer.poll_written(&mut cx).is_pending());
    knobs.set(|state| state.stalled = false);
    run(poll_fn(|cx| buffer.poll_written(cx)));
    assert!(buffer.is_away());
}
