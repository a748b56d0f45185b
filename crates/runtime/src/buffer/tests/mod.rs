//! Buffers against real storage: bytes by position, waits, failures.

mod ahead;
mod cached;
mod spilling;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use spillgate_core::time::{Duration, Instant};
use spillgate_core::units::ByteSize;

use super::*;

/// The byte at `position` of body `seed`: a wrong offset or a mix of two bodies shows.
fn byte_at(seed: u64, position: u64) -> u8 {
    let mixed = (position / 8 + seed * 0x1_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (position % 8))) as u8
}

fn body(seed: u64, from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|position| byte_at(seed, position)).collect()
}

fn settings(memory: u64, body_memory: u64) -> StorageSettings {
    StorageSettings {
        memory_max: ByteSize::from_bytes(memory),
        body_memory_max: ByteSize::from_bytes(body_memory),
        body_wait_max: Duration::from_secs(5),
        spill: None,
    }
}

fn storage(memory: u64, body_memory: u64) -> Arc<Storage> {
    Storage::new(settings(memory, body_memory)).expect("a storage without folders")
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Reads `len` bytes in memory and compares them.
fn read_and_check(buffer: &mut Buffer, seed: u64, from: u64, len: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut position = from;
    while position < from + len {
        let Poll::Ready(Ok(chunk)) = buffer.poll_chunk(&mut cx) else { panic!("not in memory") };
        assert!(!chunk.is_empty(), "bytes missing at {position}");
        let taken = chunk.len().min((from + len - position) as usize);
        assert_eq!(chunk[..taken], body(seed, position, taken), "at {position}");
        buffer.consume(taken);
        position += taken as u64;
    }
}

#[test]
fn requests_of_all_sizes_come_back_and_rewind() {
    let storage = storage(64 << 20, 1 << 20);
    for len in [0, 1, 1023, 1024, 10_000, 16_384, 16_385, 65_536, 65_537, 300_000, 1 << 20] {
        for (known, step) in [(true, 1400), (false, 1400), (true, 70_000), (false, 70_000)] {
            let mut buffer = Buffer::request(&storage, known.then_some(len as u64));
            let bytes = body(len as u64, 0, len);
            for piece in bytes.chunks(step) {
                assert_eq!(buffer.try_append(piece), Ok(piece.len()));
            }
            buffer.finish();
            assert_eq!((buffer.len(), buffer.unread()), (len as u64, len as u64));
            read_and_check(&mut buffer, len as u64, 0, len as u64);
            buffer.rewind();
            read_and_check(&mut buffer, len as u64, 0, len as u64);
            assert!(buffer.chunk().is_empty());
        }
    }
    assert_eq!(storage.view().budget.intake, ByteSize::ZERO);
}

#[test]
fn a_response_is_filled_and_read_in_turns() {
    let storage = storage(64 << 20, 1 << 20);
    let mut buffer = Buffer::response(&storage);
    let (mut written, mut read) = (0, 0);
    while read < 900_000 {
        let piece = body(7, written, 30_000);
        if written < 900_000 {
            assert_eq!(buffer.try_append(&piece), Ok(piece.len()));
            written += piece.len() as u64;
        }
        let part = buffer.unread().min(20_000);
        read_and_check(&mut buffer, 7, read, part);
        read += part;
    }
    assert!(storage.view().budget.collect <= ByteSize::from_kib(128), "read bytes are freed");
    drop(buffer);
    assert_eq!(storage.view().budget.collect, ByteSize::ZERO);
}

#[test]
fn a_full_response_takes_more_once_it_was_read() {
    let storage = storage(128 << 10, 1 << 20);
    let mut buffer = Buffer::response(&storage);
    let mut cx = Context::from_waker(Waker::noop());
    let (mut written, mut read) = (0, 0);
    for _ in 0..40 {
        loop {
            match buffer.poll_append(&mut cx, &body(3, written, 10_000)) {
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(taken)) => written += taken as u64,
                other => panic!("a response waits or fails: {other:?}"),
            }
        }
        let part = buffer.unread().min(50_000);
        assert!(part > 0, "full and empty at once");
        read_and_check(&mut buffer, 3, read, part);
        read += part;
    }
    assert_eq!(storage.view().relayed, 1);
}

#[test]
fn a_request_waits_for_memory_and_gets_it_by_age() {
    let storage = storage(100 << 10, 64 << 10);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let piece = body(1, 0, 60_000);
    let mut first = Buffer::request(&storage, Some(60_000));
    assert_eq!(first.try_append(&piece), Ok(60_000));
    let mut second = Buffer::request(&storage, Some(60_000));
    assert_eq!(second.try_append(&piece), Ok(0));
    assert!(second.poll_append(&mut cx, &piece).is_pending());
    assert!(second.poll_append(&mut cx, &piece).is_pending());
    let mut third = Buffer::request(&storage, Some(1000));
    assert!(third.poll_append(&mut cx, &piece[..1000]).is_pending(), "a younger one waits, too");
    assert_eq!(storage.view().budget.waiting, 2);
    drop(first);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
    assert_eq!(second.poll_append(&mut cx, &piece), Poll::Ready(Ok(60_000)));
    drop(third);
    drop(second);
    assert_eq!(storage.view().budget.intake, ByteSize::ZERO, "an unseen grant is given back");
}

#[test]
fn who_waits_too_long_is_shed() {
    let storage = storage(100 << 10, 64 << 10);
    let mut cx = Context::from_waker(Waker::noop());
    let piece = body(1, 0, 60_000);
    let mut first = Buffer::request(&storage, Some(60_000));
    assert_eq!(first.try_append(&piece), Ok(60_000));
    let mut second = Buffer::request(&storage, Some(60_000));
    assert!(second.poll_append(&mut cx, &piece).is_pending());
    let until = storage.poll_timeout().expect("somebody waits");
    storage.handle_timeout(until);
    assert_eq!(second.poll_append(&mut cx, &piece), Poll::Ready(Err(BufferError::Budget)));
    assert_eq!(storage.view().budget.shed, 1);
    let mut large = Buffer::request(&storage, Some(80 << 10));
    assert_eq!(large.poll_append(&mut cx, &piece), Poll::Ready(Err(BufferError::Budget)));
    assert!(until > Instant::ZERO);
}

#[test]
fn memory_is_charged_as_it_is_needed() {
    // Known length, appended bytes, bytes charged then.
    for (known, len, charged) in [
        (Some(1), 1, 1),
        (Some(10_000), 10_000, 10_000),
        (Some(70_000), 1, 70_000),
        (Some(70_000), 70_000, 70_000),
        (None, 1, 16 << 10),
        (None, 16 << 10, 16 << 10),
        (None, 20_000, 64 << 10),
        (None, 70_000, 128 << 10),
    ] {
        let storage = storage(64 << 20, 1 << 20);
        let mut buffer = Buffer::request(&storage, known);
        assert_eq!(storage.view().budget.intake, ByteSize::ZERO);
        assert_eq!(buffer.try_append(&body(1, 0, len)), Ok(len));
        assert_eq!(storage.view().budget.intake.as_bytes(), charged, "{known:?} {len}");
        buffer.finish();
        let kept = storage.view().budget.intake.as_bytes();
        assert!(kept <= (len as u64 + FIT_MIN).max(known.unwrap_or(0)), "{known:?} {len} {kept}");
    }
}

#[test]
fn a_finished_response_keeps_what_it_holds() {
    let storage = storage(64 << 20, 1 << 20);
    let mut buffer = Buffer::response(&storage);
    assert_eq!(storage.view().budget.collect, ByteSize::from_kib(64), "the window is reserved");
    assert_eq!(buffer.try_append(&body(1, 0, 10_000)), Ok(10_000));
    assert_eq!(storage.view().budget.collect, ByteSize::from_kib(64));
    buffer.finish();
    assert_eq!(storage.view().budget.collect, ByteSize::from_kib(10));
    read_and_check(&mut buffer, 1, 0, 10_000);
}

#[test]
fn without_a_folder_a_large_request_stays_in_memory_if_it_can() {
    let storage = storage(10 << 20, 1 << 20);
    for known in [Some(5 << 20), None] {
        let mut buffer = Buffer::request(&storage, known);
        let bytes = body(1, 0, 5 << 20);
        assert_eq!(buffer.try_append(&bytes), Ok(bytes.len()));
        read_and_check(&mut buffer, 1, 0, 5 << 20);
        assert!(!buffer.is_spilled());
    }
}

#[test]
fn the_timer_sheds_who_waits_too_long() {
    let engine = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let body_wait_max = Duration::from_millis(2);
    let storage = Storage::new(StorageSettings { body_wait_max, ..settings(100 << 10, 64 << 10) });
    let storage = storage.expect("a storage without folders");
    engine.expect("an engine").block_on(async {
        let timer = tokio::spawn(Arc::clone(&storage).shed_late());
        let mut first = Buffer::request(&storage, Some(60_000));
        assert_eq!(first.append_all(&body(1, 0, 60_000)).await, Ok(()));
        for _ in 0..3 {
            let mut second = Buffer::request(&storage, None);
            assert_eq!(second.append_all(&body(2, 0, 60_000)).await, Err(BufferError::Budget));
        }
        timer.abort();
    });
}

#[test]
fn a_length_that_was_wrong_does_no_harm() {
    let storage = storage(64 << 20, 1 << 20);
    for told in [0, 10, 70_000, 1 << 40] {
        let mut response = Buffer::response(&storage);
        response.expect_len(told);
        let mut request = Buffer::request(&storage, Some(told.min(1 << 20)));
        for buffer in [&mut response, &mut request] {
            for position in (0..300_000).step_by(30_000) {
                assert_eq!(buffer.try_append(&body(1, position, 30_000)), Ok(30_000));
            }
            buffer.finish();
            read_and_check(buffer, 1, 0, 300_000);
        }
    }
    assert_eq!(storage.view().budget.collect, ByteSize::ZERO);
    assert_eq!(storage.view().budget.intake, ByteSize::ZERO);
}
