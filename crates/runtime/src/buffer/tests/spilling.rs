//! Buffers over spill folders: real files, and a file double that is full, failing or stalled.

use spillgate_core::rng::Rng;

use super::*;
use crate::buffer::spilled::STAGE;
use crate::spill::doubles::{self, Knobs};
use crate::spill::{EXTENT, QUEUE_MAX};

const MIB: u64 = 1 << 20;

/// Runs a future to its end on a small engine.
pub(super) fn run<F: Future>(future: F) -> F::Output {
    let engine = tokio::runtime::Builder::new_current_thread().enable_time().build();
    engine.expect("an engine").block_on(future)
}

/// A storage over one real folder.
fn on_disk(memory: u64, body_memory: u64, size: u64) -> (Arc<Storage>, tempfile::TempDir) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let spill = Some(doubles::folder(scratch.path(), size));
    let settings = StorageSettings { spill, ..settings(memory, body_memory) };
    (Storage::new(settings).expect("a spill folder"), scratch)
}

/// A storage over a file that misbehaves on demand.
pub(super) fn on_double(memory: u64, body_memory: u64, size: u64) -> (Arc<Storage>, Arc<Knobs>) {
    let (spill, knobs) = doubles::spill(size, 1);
    (Storage::over(&settings(memory, body_memory), Some(spill)), knobs)
}

/// The budget pays for all memory; a reader on a full disk may use one stage more.
pub(super) fn check_charge(buffer: &Buffer) {
    let most = buffer.account.charged() + STAGE;
    assert!(buffer.held() <= most, "{} held, {most} charged", buffer.held());
    assert!(buffer.is_spilled() || buffer.held() <= buffer.account.charged());
}

pub(super) async fn fill(
    buffer: &mut Buffer,
    seed: u64,
    len: usize,
    step: usize,
) -> Result<(), BufferError> {
    let bytes = body(seed, 0, len);
    for piece in bytes.chunks(step) {
        buffer.append_all(piece).await?;
        check_charge(buffer);
    }
    buffer.finish();
    Ok(())
}

pub(super) async fn drain(
    buffer: &mut Buffer,
    seed: u64,
    from: u64,
    len: u64,
) -> Result<(), BufferError> {
    let mut position = from;
    while position < from + len {
        let chunk = buffer.next_chunk().await?;
        assert!(!chunk.is_empty(), "bytes missing at {position}");
        let taken = chunk.len().min((from + len - position) as usize);
        assert!(chunk[..taken] == body(seed, position, taken), "wrong bytes at {position}");
        check_charge(buffer);
        buffer.consume(taken);
        position += taken as u64;
    }
    Ok(())
}

fn used(storage: &Storage) -> u64 {
    storage.view().spill.expect("there is a folder").used.as_bytes()
}

pub(super) fn is_clean(storage: &Storage) -> bool {
    let view = storage.view();
    view.budget.intake == ByteSize::ZERO
        && view.budget.collect == ByteSize::ZERO
        && used(storage) == 0
}

#[test]
fn a_large_request_spills_and_is_read_twice() {
    let (storage, _scratch) = on_disk(64 * MIB, MIB, 64 * MIB);
    for (known, step) in [(true, 1400), (false, 70_000), (true, 200_000)] {
        for len in [MIB as usize - 1, MIB as usize, MIB as usize + 1, 5_000_000] {
            let mut buffer = Buffer::request(&storage, known.then_some(len as u64));
            run(fill(&mut buffer, 9, len, step)).expect("it fits");
            assert_eq!(buffer.is_spilled(), len as u64 > MIB);
            assert!(storage.view().budget.intake.as_bytes() <= MIB);
            run(drain(&mut buffer, 9, 0, len as u64)).expect("it is there");
            buffer.rewind();
            run(drain(&mut buffer, 9, 0, 100_000)).expect("it is still there");
            buffer.rewind();
            run(drain(&mut buffer, 9, 0, len as u64)).expect("it is still there");
            assert!(storage.view().budget.intake.as_bytes() <= MIB);
        }
    }
    assert!(is_clean(&storage));
}

#[test]
fn many_requests_finish_through_small_stages_when_memory_is_short() {
    // 350 KiB may hold whole bodies; the stages of the others share 350 KiB more.
    let (storage, _scratch) = on_disk(1000 << 10, MIB, 64 * MIB);
    run(async {
        let tasks: Vec<_> = (0..60_u64)
            .map(|seed| {
                let storage = Arc::clone(&storage);
                tokio::spawn(async move {
                    let len = 1000 + 7919 * seed;
                    let known = (seed % 3 != 0).then_some(len);
                    let mut buffer = Buffer::request(&storage, known);
                    fill(&mut buffer, seed, len as usize, 3000).await?;
                    tokio::task::yield_now().await;
                    drain(&mut buffer, seed, 0, len).await
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.expect("no panic"), Ok(()));
        }
    });
    let view = storage.view();
    assert!(view.spilled > 10, "memory was not short: {view:?}");
    assert_eq!(view.budget.shed, 0);
    assert!(is_clean(&storage));
}

/// Fills and reads a response in random turns, as collect and deliver do in one task: one turn in
/// `reads` reads.
fn turns(storage: &Arc<Storage>, seed: u64, len: u64, reads: u64) {
    let mut rng = Rng::new(seed);
    let mut buffer = Buffer::response(storage);
    let (mut written, mut read) = (0_u64, 0_u64);
    while read < len {
        let want = rng.below(100_000).min(len - written) as usize;
        if rng.below(reads) > 0 && want > 0 {
            let piece = body(seed, written, want);
            written += run(poll_fn(|cx| buffer.poll_append(cx, &piece))).expect("in order") as u64;
            check_charge(&buffer);
        } else {
            let part = rng.below(buffer.unread() + 1);
            run(drain(&mut buffer, seed, read, part)).expect("in order");
            read += part;
        }
        if written == len {
            buffer.finish();
        }
    }
    assert_eq!((buffer.len(), buffer.unread()), (len, 0));
}

#[test]
fn responses_come_back_in_order_whatever_the_turns() {
    let (storage, _scratch) = on_disk(4 * MIB, 300_000, 64 * MIB);
    (0..5).for_each(|seed| turns(&storage, seed, 3_000_000, 3));
    assert!(storage.view().spilled > 0);
    assert_eq!(storage.view().relayed, 0);
    assert!(is_clean(&storage));
}

#[test]
fn responses_come_back_in_order_with_a_window_and_a_folder_only() {
    let (storage, _scratch) = on_disk(100 << 10, MIB, 64 * MIB);
    (0..5).for_each(|seed| turns(&storage, seed, 1_000_000, 3));
    assert!(storage.view().spilled > 0);
    assert!(is_clean(&storage));
}

#[test]
fn responses_come_back_in_order_from_a_short_and_small_disk() {
    let (storage, knobs) = on_double(100 << 10, MIB, 2 * EXTENT);
    knobs.set(|state| state.short = Some(10_000));
    // So few read that the folder fills up, however fast the I/O threads are.
    (0..5).for_each(|seed| turns(&storage, seed, 2_000_000, 20));
    assert!(storage.view().relayed > 0, "the folder was never full");
    assert!(is_clean(&storage));
}

#[test]
fn a_finished_spilled_response_holds_less_than_a_window() {
    let (storage, _scratch) = on_disk(100 << 10, MIB, 64 * MIB);
    let mut buffer = Buffer::response(&storage);
    let mut written = 0;
    while written < 900_000 {
        let piece = body(5, written, 30_000);
        written += run(poll_fn(|cx| buffer.poll_append(cx, &piece))).expect("room") as u64;
    }
    buffer.finish();
    run(drain(&mut buffer, 5, 0, 500_000)).expect("it is there");
    let held = storage.view().budget.collect;
    // What is being read, and perhaps the tail: it may still be behind a write.
    assert!(held > ByteSize::ZERO && held < COLLECT_WINDOW, "{held}");
    run(drain(&mut buffer, 5, 500_000, written - 500_000)).expect("it is there");
}

#[test]
fn a_full_folder_ends_a_request_and_no_other_body() {
    let (storage, _scratch) = on_disk(10 * MIB, 128 << 10, 2 * EXTENT);
    let mut small = Buffer::request(&storage, Some(300_000));
    run(fill(&mut small, 1, 300_000, 5000)).expect("it fits");
    let mut large = Buffer::request(&storage, None);
    let engine = tokio::runtime::Builder::new_current_thread().enable_time().build();
    engine.expect("an engine").block_on(async {
        let mut filling = std::pin::pin!(fill(&mut large, 2, 3_000_000, 5000));
        let waits = |storage: &Storage| storage.view().budget.waiting > 0;
        poll_fn(|cx| {
            let filled = filling.as_mut().poll(cx);
            let turn = filled.is_pending() && !waits(&storage);
            if turn {
                cx.waker().wake_by_ref();
            }
            if turn { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        storage.handle_timeout(storage.poll_timeout().expect("it waits for the folder"));
        assert_eq!(filling.await, Err(BufferError::SpillFull));
    });
    assert_eq!(large.try_append(b"x"), Err(BufferError::SpillFull), "it stays failed");
    drop(large);
    run(drain(&mut small, 1, 0, 300_000)).expect("it is untouched");
    let mut next = Buffer::request(&storage, None);
    run(fill(&mut next, 3, 300_000, 5000)).expect("its place was freed");
    run(drain(&mut next, 3, 0, 300_000)).expect("it is there");
    drop((small, next));
    assert!(is_clean(&storage));
}

/// Each would fit alone. Fills them in turns, and says how each went.
fn fill_in_turns(storage: &Arc<Storage>, bodies: Vec<Buffer>) -> Vec<Result<(), BufferError>> {
    const LEN: usize = 900_000;
    run(async {
        let tasks = bodies.into_iter().enumerate().map(|(seed, mut body)| {
            tokio::spawn(async move {
                fill(&mut body, seed as u64, LEN, 5000).await?;
                drain(&mut body, seed as u64, 0, LEN as u64).await
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut ends = Vec::new();
        for task in tasks {
            ends.push(task.await.expect("no panic"));
        }
        assert!(is_clean(storage));
        ends
    })
}

#[test]
fn uploads_on_a_small_disk_do_not_shed_one_another_to_the_last() {
    for _ in 0..10 {
        let (storage, _scratch) = on_disk(10 * MIB, 128 << 10, 4 * EXTENT);
        let known = (0..6).map(|_| Buffer::request(&storage, Some(900_000))).collect();
        assert_eq!(fill_in_turns(&storage, known), [Ok(()); 6], "they take turns");
        let growing = (0..6).map(|_| Buffer::request(&storage, None)).collect();
        let ends = fill_in_turns(&storage, growing);
        assert!(ends.contains(&Ok(())), "{ends:?}");
        let impossible = vec![Buffer::request(&storage, Some(2_000_000))];
        assert_eq!(fill_in_turns(&storage, impossible), [Err(BufferError::SpillFull)]);
    }
}

#[test]
fn a_full_folder_makes_a_response_a_relay_and_loses_nothing() {
    for full_at in [None, Some(200_000)] {
        let (storage, knobs) = on_double(100 << 10, MIB, 2 * EXTENT);
        knobs.set(|state| state.full_at = full_at);
        let mut buffer = Buffer::response(&storage);
        let mut written = 0;
        let fill_up = |buffer: &mut Buffer, written: &mut u64| loop {
            let piece = body(5, *written, 30_000);
            match run(poll_fn(|cx| buffer.poll_append(cx, &piece))).expect("no error") {
                0 => break,
                taken => *written += taken as u64,
            }
        };
        fill_up(&mut buffer, &mut written);
        assert_eq!(storage.view().relayed, 1);
        run(drain(&mut buffer, 5, 0, written)).expect("nothing is lost");
        let read = written;
        fill_up(&mut buffer, &mut written);
        assert!(written > read, "it takes more once it was read");
        run(drain(&mut buffer, 5, read, written - read)).expect("nothing is lost");
        drop(buffer);
        assert!(is_clean(&storage));
    }
}

#[test]
fn a_failed_write_ends_a_request() {
    let (storage, knobs) = on_double(10 * MIB, 128 << 10, 64 * MIB);
    knobs.set(|state| state.full_at = Some(100_000));
    let mut buffer = Buffer::request(&storage, None);
    assert_eq!(run(fill(&mut buffer, 2, 1_000_000, 5000)), Err(BufferError::SpillFull));
    assert_eq!(run(buffer.next_chunk()).map(<[u8]>::len), Err(BufferError::SpillFull));
    drop(buffer);
    assert!(is_clean(&storage));
}

#[test]
fn a_request_that_was_whole_before_its_write_failed_is_served() {
    for full_at in [65_536, 80_000] {
        let (storage, knobs) = on_double(10 * MIB, 64 << 10, 64 * MIB);
        knobs.set(|state| state.full_at = Some(full_at));
        let mut buffer = Buffer::request(&storage, Some(100_000));
        run(fill(&mut buffer, 2, 100_000, 50_000)).expect("memory was enough");
        run(drain(&mut buffer, 2, 0, 100_000)).expect("nothing is lost");
        buffer.rewind();
        run(drain(&mut buffer, 2, 0, 100_000)).expect("nothing is lost");
    }
}

#[test]
fn a_failed_read_ends_its_body_alone() {
    let (storage, knobs) = on_double(10 * MIB, 128 << 10, 64 * MIB);
    let (mut first, mut second) =
        (Buffer::request(&storage, None), Buffer::request(&storage, None));
    run(fill(&mut first, 1, 500_000, 5000)).expect("room");
    run(fill(&mut second, 2, 500_000, 5000)).expect("room");
    knobs.set(|state| state.unreadable = true);
    let failed = run(drain(&mut first, 1, 0, 500_000));
    assert!(matches!(failed, Err(BufferError::SpillIo(_))), "{failed:?}");
    knobs.set(|state| state.unreadable = false);
    assert_eq!(run(drain(&mut first, 1, 0, 10)), failed, "it stays failed");
    run(drain(&mut second, 2, 0, 500_000)).expect("it is untouched");
}

#[test]
fn a_stalled_disk_holds_up_what_is_on_it_and_nothing_else() {
    let (storage, knobs) = on_double(10 * MIB, 64 << 10, 64 * MIB);
    knobs.set(|state| state.stalled = true);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let mut slow = Buffer::request(&storage, None);
    let bytes = body(1, 0, 500_000);
    let mut done = 0;
    while let Poll::Ready(taken) = slow.poll_append(&mut cx, &bytes[done..]) {
        done += taken.expect("no error");
    }
    assert!(done < bytes.len());
    knobs.wait_for_calls(1);
    let mut other = Buffer::request(&storage, Some(50_000));
    assert_eq!(other.try_append(&body(2, 0, 50_000)), Ok(50_000));
    read_and_check(&mut other, 2, 0, 50_000);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    knobs.set(|state| state.stalled = false);
    run(slow.append_all(&bytes[done..])).expect("the disk is back");
    run(drain(&mut slow, 1, 0, 500_000)).expect("it is there");
}

#[test]
fn a_body_dropped_in_a_write_frees_its_place_after_it() {
    let (storage, knobs) = on_double(10 * MIB, 64 << 10, 2 * EXTENT);
    knobs.set(|state| state.stalled = true);
    let mut cx = Context::from_waker(Waker::noop());
    let mut buffer = Buffer::request(&storage, None);
    while let Poll::Ready(taken) = buffer.poll_append(&mut cx, &body(1, 0, 50_000)) {
        taken.expect("no error");
    }
    knobs.wait_for_calls(1);
    drop(buffer);
    assert_eq!(storage.view().budget.intake, ByteSize::ZERO);
    assert_eq!(used(&storage), EXTENT, "the write may still come");
    knobs.set(|state| state.stalled = false);
    let mut next = Buffer::request(&storage, None);
    run(fill(&mut next, 2, 500_000, 5000)).expect("it waits for the job");
    run(drain(&mut next, 2, 0, 500_000)).expect("its own bytes");
    drop(next);
    assert!(is_clean(&storage));
}

#[test]
fn a_full_queue_is_waited_for() {
    let (storage, knobs) = on_double(100 * MIB, 64 << 10, 100 * MIB);
    knobs.set(|state| state.stalled = true);
    run(async {
        let tasks: Vec<_> = (0..QUEUE_MAX as u64 + 20)
            .map(|seed| {
                let storage = Arc::clone(&storage);
                tokio::spawn(async move {
                    let mut buffer = Buffer::request(&storage, None);
                    fill(&mut buffer, seed, 200_000, 50_000).await?;
                    drain(&mut buffer, seed, 0, 200_000).await
                })
            })
            .collect();
        while storage.view().spill.expect("a folder").jobs_waiting < QUEUE_MAX as u32 {
            tokio::task::yield_now().await;
        }
        knobs.set(|state| state.stalled = false);
        for task in tasks {
            assert_eq!(task.await.expect("no panic"), Ok(()));
        }
    });
    assert!(is_clean(&storage));
}
