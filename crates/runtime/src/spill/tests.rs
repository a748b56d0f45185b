//! The spill folders alone: bytes, limits, faults, and jobs that outlive their body.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::task::{Poll, Wake};

use super::doubles::spill;
use super::*;

/// Wakes a test thread.
struct Bell(mpsc::SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // A full channel has rung already.
        _ = self.0.try_send(());
    }
}

/// Waits for a transfer as a task would.
fn wait(transfer: &mut Transfer) -> Done {
    let (bell, rung) = mpsc::sync_channel(1);
    let waker = Waker::from(Arc::new(Bell(bell)));
    loop {
        match transfer.poll(Some(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => rung.recv().expect("the job ends"),
        }
    }
}

fn now(offset: u64, data: Vec<u8>) -> Order {
    Order { offset, data, haste: Haste::Now }
}

fn write(chain: &mut Chain, offset: u64, data: Vec<u8>) -> Done {
    assert!(chain.extend(offset + data.len() as u64, None), "no room");
    wait(&mut chain.write(now(offset, data), &mut None, None).expect("the queue has room"))
}

fn read(chain: &Chain, offset: u64, len: usize) -> Done {
    wait(&mut chain.read(now(offset, vec![0; len]), &mut None, None).expect("room in the queue"))
}

#[test]
fn bytes_come_back_across_extents_and_files() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let spill = Spill::open(&doubles::folder(scratch.path(), 16 << 20));
    let spill = Arc::new(spill.expect("a spill folder"));
    let mut chain = Chain::new(&spill);
    let pieces: Vec<Vec<u8>> = (1..30).map(|number| vec![number; 50_000]).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let done = write(&mut chain, index as u64 * 50_000, piece.clone());
        assert!(done.result.is_ok());
        assert!(done.data.is_empty(), "its memory is freed, whether or not somebody looks");
    }
    let all = pieces.concat();
    for offset in [0, 1, 262_000, 700_001] {
        let done = read(&chain, offset, 300_000);
        assert!(done.result.is_ok());
        assert_eq!(done.data, all[offset as usize..offset as usize + 300_000]);
    }
    assert_eq!(spill.view().written.as_bytes(), all.len() as u64);
    drop(chain);
    assert_eq!(spill.view().used, ByteSize::ZERO);
}

#[test]
fn short_transfers_are_completed() {
    let (spill, knobs) = spill(1 << 20, 1);
    knobs.set(|state| state.short = Some(1000));
    let mut chain = Chain::new(&spill);
    let data: Vec<u8> = (0..70_000_u32).map(|number| number as u8).collect();
    assert!(write(&mut chain, 0, data.clone()).result.is_ok());
    assert_eq!(read(&chain, 0, data.len()).data, data);
}

#[test]
fn a_failed_write_is_the_matter_of_one_body() {
    let (spill, knobs) = spill(1 << 20, 1);
    let (mut first, mut second) = (Chain::new(&spill), Chain::new(&spill));
    assert!(write(&mut first, 0, vec![1; 60_000]).result.is_ok());
    knobs.set(|state| state.full_at = Some(100_000));
    let done = write(&mut first, 60_000, vec![2; 60_000]);
    assert_eq!(done.result.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    assert_eq!(done.data, vec![2; 60_000], "nothing is lost");
    knobs.set(|state| state.full_at = None);
    assert!(write(&mut second, 0, vec![3; 60_000]).result.is_ok());
    assert_eq!(read(&first, 0, 60_000).data, vec![1; 60_000]);
    assert_eq!(spill.view().failed, 1);
}

#[test]
fn what_was_never_written_cannot_be_read() {
    let (spill, _knobs) = spill(1 << 20, 1);
    let mut chain = Chain::new(&spill);
    assert!(write(&mut chain, 0, vec![1; 1000]).result.is_ok());
    let done = read(&chain, 0, 1001);
    assert_eq!(done.result.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof));
}

#[test]
fn the_size_limit_is_a_clear_no() {
    let (spill, _knobs) = spill(2 * EXTENT, 1);
    let mut chain = Chain::new(&spill);
    assert!(chain.extend(2 * EXTENT, None));
    assert!(!chain.extend(2 * EXTENT + 1, None));
    chain.drop_first();
    assert!(chain.extend(2 * EXTENT, None));
}

#[test]
fn an_extent_is_not_free_before_its_last_job_has_ended() {
    let (spill, knobs) = spill(2 * EXTENT, 1);
    knobs.set(|state| state.stalled = true);
    let mut chain = Chain::new(&spill);
    assert!(chain.extend(10, None));
    let transfer = chain.write(now(0, vec![7; 10]), &mut None, None);
    knobs.wait_for_calls(1);
    drop((transfer, chain));
    assert_eq!(spill.view().used.as_bytes(), EXTENT, "the write may still come");
    let mut other = Chain::new(&spill);
    assert!(other.extend(EXTENT, None));
    let mut own = other.write(now(0, vec![8; 10]), &mut None, None).expect("room");
    knobs.set(|state| state.stalled = false);
    assert!(wait(&mut own).result.is_ok());
    assert_eq!(spill.view().used.as_bytes(), EXTENT);
    assert_eq!(read(&other, 0, 10).data, vec![8; 10]);
}

/// Counts wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_full_queue_says_so_and_wakes_who_waits_for_it() {
    let (spill, knobs) = spill(1 << 20, 1);
    knobs.set(|state| state.stalled = true);
    let mut chain = Chain::new(&spill);
    assert!(chain.extend(10, None));
    let submit = |turn: &mut Option<Turn>, waker: Option<&Waker>| {
        chain.write(now(0, vec![7; 10]), turn, waker)
    };
    let mut last = submit(&mut None, None).expect("an empty queue");
    knobs.wait_for_calls(1);
    for _ in 0..QUEUE_MAX {
        last = submit(&mut None, None).expect("a queue with room");
    }
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let (mut stays, mut leaves) = (None, None);
    assert_eq!(submit(&mut stays, Some(&waker)).expect_err("full"), vec![7; 10]);
    assert!(submit(&mut stays, Some(&waker)).is_err());
    assert!(submit(&mut leaves, Some(&waker)).is_err());
    drop(leaves);
    knobs.set(|state| state.stalled = false);
    assert!(wait(&mut last).result.is_ok());
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "once, and only who is still there");
    assert!(submit(&mut stays, Some(&waker)).is_ok());
    assert!(stays.is_none());
}

fn lazy(offset: u64, data: Vec<u8>) -> Order {
    Order { offset, data, haste: Haste::Lazy }
}

#[test]
fn lazy_jobs_are_done_and_told_whether_threads_doze_or_sleep() {
    let (spill, _knobs) = spill(1 << 20, 2);
    let mut chain = Chain::new(&spill);
    assert!(chain.extend(10, None));
    for asleep in [false, true, false] {
        if asleep {
            while spill.jobs.sleeping() < 2 {
                std::thread::yield_now();
            }
        }
        let done = wait(&mut chain.write(lazy(0, vec![7; 10]), &mut None, None).expect("room"));
        assert!(done.result.is_ok());
        let done = wait(&mut chain.read(lazy(0, vec![0; 10]), &mut None, None).expect("room"));
        assert_eq!(done.data, vec![7; 10]);
    }
}

#[test]
fn more_lazy_jobs_than_are_told_at_once_are_all_told() {
    let (spill, _knobs) = spill(1 << 20, 2);
    let mut chain = Chain::new(&spill);
    assert!(chain.extend(100, None));
    let submit = |offset: u64| {
        let order =
            if offset.is_multiple_of(7) { now(offset, vec![7]) } else { lazy(offset, vec![7]) };
        chain.write(order, &mut None, None).expect("a queue with room")
    };
    let transfers: Vec<Transfer> = (0..100).map(submit).collect();
    for mut transfer in transfers {
        assert!(wait(&mut transfer).result.is_ok());
    }
    assert_eq!(read(&chain, 0, 100).data, vec![7; 100]);
}

#[test]
fn a_job_that_a_disk_holds_up_holds_up_no_word_of_others() {
    let (spill, knobs) = spill(1 << 20, 2);
    let mut chain = Chain::new(&spill);
    assert!(chain.extend(10, None));
    knobs.set(|state| state.stalled = true);
    let (bell, rung) = mpsc::sync_channel(3);
    let waker = Waker::from(Arc::new(Bell(bell)));
    let submit = |offset: u64| {
        let order = lazy(offset, vec![offset as u8]);
        let mut transfer = chain.write(order, &mut None, None).expect("room");
        assert!(transfer.poll(Some(&waker)).is_pending());
        transfer
    };
    // Each thread has one, and the third stands behind them.
    let mut transfers = vec![submit(0), submit(1)];
    knobs.wait_for_calls(2);
    transfers.push(submit(2));
    // Whichever ends first, its thread is then held up by the third.
    knobs.set(|state| state.pass = 1);
    knobs.wait_for_calls(3);
    knobs.set(|state| state.pass = 1);
    for _ in 0..2 {
        rung.recv().expect("the word of what has ended does not wait for the rest");
    }
    let ended = transfers.iter_mut().filter_map(|transfer| match transfer.poll(None) {
        Poll::Ready(done) => Some(done.result.is_ok()),
        Poll::Pending => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [true, true]);
    knobs.set(|state| state.stalled = false);
}

#[test]
fn settings_out_of_range_are_an_error() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let good = doubles::folder(scratch.path(), 1 << 20);
    for bad in [
        Settings { folders: Vec::new(), ..good.clone() },
        Settings { size_max: ByteSize::from_kib(255), ..good.clone() },
        Settings { threads: 0, ..good.clone() },
        Settings { threads: 65, ..good },
    ] {
        let error = Spill::open(&bad).expect_err("out of range");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn idle_threads_give_disk_space_back() {
    let (spill, knobs) = spill(300 * EXTENT, 1);
    let mut chain = Chain::new(&spill);
    assert!(write(&mut chain, 300 * EXTENT - 10, vec![7; 10]).result.is_ok());
    drop(chain);
    // One write, and the 44 extents beyond the reserve.
    knobs.wait_for_calls(1 + 44);
    assert_eq!(spill.view().used, ByteSize::ZERO);
}
