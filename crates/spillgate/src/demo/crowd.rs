//! The crowd: clients that come by a rate, whether or not those before them were answered.
//!
//! An open loop, as the internet is one: a slow answer does not keep the next client away. Arrivals
//! are a Poisson process of a seeded generator. Lives on one thread; bounded by `OPEN_MAX`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use spillgate_core::rng::Rng;
use spillgate_core::time::Instant;
use spillgate_runtime::http::settings::Endpoint;
use spillgate_runtime::{clock, shard};

use super::client::{self, Client, Lost};
use super::plan::{HEAVY_EVERY, UPLOADS};
use super::tally::{End, Tally};

/// Requests that may be open; beyond it one counts as failed without being sent.
const OPEN_MAX: u32 = 2000;
/// How long a client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an upload, and the pieces in which they come.
const UPLOAD_SIZE: usize = 64 * 1024;
const UPLOAD_PIECES: u32 = 32;
/// Longest wait before the rate is looked at again.
const LOOK: Duration = Duration::from_millis(100);

/// The crowd.
pub(super) struct Crowd {
    to: Endpoint,
    /// What became of its requests.
    pub(super) tally: RefCell<Tally>,
    /// Requests a second; below zero: no more, ever.
    rate: Cell<f64>,
    phase: Cell<usize>,
    open: Cell<u32>,
    /// Uploads that are not complete yet.
    pub(super) uploading: Cell<u32>,
    rng: RefCell<Rng>,
}

impl Crowd {
    /// A crowd that asks `to`, and nothing yet.
    pub(super) fn new(to: Endpoint) -> Rc<Crowd> {
        Rc::new(Crowd {
            to,
            tally: RefCell::default(),
            rate: Cell::new(0.0),
            phase: Cell::new(0),
            open: Cell::new(0),
            uploading: Cell::new(0),
            rng: RefCell::new(Rng::new(1)),
        })
    }

    /// From here on `rate` pages a second, for this phase.
    pub(super) fn begin(&self, phase: usize, rate: f64) {
        self.phase.set(phase);
        self.rate.set(rate);
    }

    /// Nobody comes any more.
    pub(super) fn end(&self) {
        self.rate.set(-1.0);
    }

    /// Requests that are open.
    pub(super) fn open(&self) -> u32 {
        self.open.get()
    }

    /// Let clients come until [`Crowd::end`].
    pub(super) async fn run(self: Rc<Self>) {
        let mut due = clock::now();
        while self.rate.get() >= 0.0 {
            let now = clock::now();
            if self.rate.get() == 0.0 {
                due = now + LOOK;
            } else if due <= now {
                self.send_page(due);
                due = due + self.gap();
                continue;
            }
            shard::sleep_until(due.min(now + LOOK)).await;
        }
    }

    /// Time to the next arrival: exponentially distributed, so arrivals clump as real ones do.
    fn gap(&self) -> Duration {
        let share = 1.0 - self.rng.borrow_mut().unit();
        Duration::from_secs_f64(-share.ln() / self.rate.get().max(0.001))
    }

    fn send_page(self: &Rc<Self>, due: Instant) {
        let phase = self.phase.get();
        self.tally.borrow_mut().offer(phase, due);
        if self.open.get() >= OPEN_MAX {
            let end = End::Failed("crowd_full".to_owned());
            return self.tally.borrow_mut().end(phase, end, due);
        }
        let number = self.rng.borrow_mut().next_u64();
        let kind = if number.is_multiple_of(HEAVY_EVERY) { "heavy" } else { "page" };
        let request = format!(
            "GET /{kind}/{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            number % 1000,
            self.to
        );
        self.open.set(self.open.get() + 1);
        let crowd = Rc::clone(self);
        shard::spawn(async move {
            let answer = client::ask(&crowd.to, request.as_bytes(), PATIENCE).await;
            let now = clock::now();
            let end = End::of(answer, now.since(due));
            crowd.tally.borrow_mut().end(phase, end, now);
            crowd.open.set(crowd.open.get() - 1);
        });
    }

    /// Let [`UPLOADS`] clients upload at the same time, all within `time`.
    pub(super) fn upload(self: &Rc<Self>, time: Duration) {
        for number in 0..UPLOADS {
            // They begin within the first half, and end as far apart.
            let begin = clock::now() + time.mul_f64(0.5 * number as f64 / UPLOADS as f64);
            self.tally.borrow_mut().offer_upload();
            self.open.set(self.open.get() + 1);
            self.uploading.set(self.uploading.get() + 1);
            let crowd = Rc::clone(self);
            shard::spawn(async move {
                let sent = crowd.send_upload(begin, time / 2).await;
                crowd.uploading.set(crowd.uploading.get() - 1);
                let answer = match sent {
                    Ok(mut client) => client.answer().await,
                    Err(lost) => Err(lost),
                };
                let end = End::of(answer, clock::now().since(begin + time / 2));
                crowd.tally.borrow_mut().end_upload(&end);
                crowd.open.set(crowd.open.get() - 1);
            });
        }
    }

    /// Send an upload piece by piece; ends early when it is answered early.
    async fn send_upload(&self, begin: Instant, time: Duration) -> Result<Client, Lost> {
        shard::sleep_until(begin).await;
        let mut client = Client::connect(&self.to, PATIENCE + time).await?;
        let head = format!(
            "POST /upload HTTP/1.1\r\nHost: {}\r\nContent-Length: {UPLOAD_SIZE}\r\n\
             Connection: close\r\n\r\n",
            self.to
        );
        client.send(head.as_bytes()).await?;
        let piece = vec![b'x'; UPLOAD_SIZE / UPLOAD_PIECES as usize];
        for number in 1..=UPLOAD_PIECES {
            shard::sleep_until(begin + time * number / UPLOAD_PIECES).await;
            if client.is_answered().await {
                break;
            }
            client.send(&piece).await?;
        }
        Ok(client)
    }
}
