//! The last stage: one access record, the counters and the histograms of an exchange.
//!
//! A [`Record`] accompanies its exchange from the head on and notes when each stage was finished.
//! It counts the arrival, and exactly one end, also when the exchange is cut off by a panic.

use spillgate_core::gate::Class;
use spillgate_core::id::WorkerId;
use spillgate_core::time::Instant;
use spillgate_runtime::clock;
use spillgate_runtime::events::{LineBuffer, Timestamps, json};
use spillgate_runtime::http::service::Client;
use spillgate_runtime::metrics::LabelSet;
use spillgate_wire::forwarded::{self, Traceparent};
use spillgate_wire::http1::{Name, RequestHead};

use crate::error::{ExchangeError, Kind};
use crate::forward;
use crate::hedge::Hedges;
use crate::metrics::label::{FailReason, RelayReason, RetryKind, Stage, StatusClass};
use crate::metrics::{End, PoolMetrics};
use crate::shard::Shard;

/// What a record usually takes at most, in bytes: room is asked for once.
const LINE_USUAL: usize = 768;

/// Longest request id that is believed from a trusted client.
const REQUEST_ID_MAX: usize = 64;

/// What is noted of one exchange.
pub(crate) struct Record<'s, 'r> {
    shard: &'s Shard,
    place: u32,
    serial: u64,
    head: Option<&'r RequestHead>,
    client: &'r Client,
    pub(crate) started: Instant,
    pool: Option<usize>,
    class: Class,
    /// A JSON string.
    route: &'s [u8],
    worker: Option<WorkerId>,
    arrived: bool,
    ended: bool,
    tries: u32,
    pub(crate) hedges: Hedges,
    pub(crate) relay: Option<RelayReason>,
    request_bytes: u64,
    pub(crate) response_bytes: u64,
    /// Those of them that were not copied.
    pub(crate) spliced_bytes: u64,
    pub(crate) status: u16,
    /// The id that the client gave it, where that is believed; none: that of its trace.
    given_id: Option<&'r [u8]>,
    pub(crate) traceparent: Traceparent,
    /// When each stage was finished; the far future: it was not. Kept small, since a record is
    /// touched at each stage of each exchange.
    done: [Instant; 7],
}

impl<'s, 'r> Record<'s, 'r> {
    /// A request head is whole.
    pub(crate) fn begin(
        shard: &'s Shard,
        head: &'r RequestHead,
        client: &'r Client,
        started: Instant,
    ) -> Record<'s, 'r> {
        let mut record = Record::empty(shard, client, started);
        record.place = shard.active.borrow_mut().begin(
            record.serial,
            head.method_bytes(),
            head.target(),
            started,
        );
        record.head = Some(head);
        record.name_it(head);
        record
    }

    /// Something came that never became a request.
    pub(crate) fn without_head(
        shard: &'s Shard,
        client: &'r Client,
        started: Instant,
    ) -> Record<'s, 'r> {
        let mut record = Record::empty(shard, client, started);
        record.place = shard.active.borrow_mut().begin(record.serial, b"-", b"-", started);
        record.arrive(None, b"\"\"");
        record
    }

    fn empty(shard: &'s Shard, client: &'r Client, started: Instant) -> Record<'s, 'r> {
        Record {
            shard,
            place: 0,
            serial: shard.next_serial(),
            head: None,
            client,
            started,
            pool: None,
            class: Class::default(),
            route: b"\"\"",
            worker: None,
            arrived: false,
            ended: false,
            tries: 0,
            hedges: Hedges::default(),
            relay: None,
            request_bytes: 0,
            response_bytes: 0,
            spliced_bytes: 0,
            status: 0,
            given_id: None,
            traceparent: Traceparent { trace_id: [0; 16], parent_id: [0; 8], flags: 0 },
            done: [Instant::FAR_FUTURE; 7],
        }
    }

    /// Give it an id and a trace: the client's where it is believed, else new ones.
    fn name_it(&mut self, head: &'r RequestHead) {
        let mut rng = self.shard.rng.borrow_mut();
        let mut trace_id = [0; 16];
        trace_id[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
        trace_id[8..].copy_from_slice(&(rng.next_u64() | 1).to_be_bytes());
        self.traceparent =
            Traceparent { trace_id, parent_id: (rng.next_u64() | 1).to_be_bytes(), flags: 0 };
        if self.client.trusted
            && let Some(theirs) = head.get(Name::Traceparent).and_then(Traceparent::parse)
        {
            self.traceparent.trace_id = theirs.trace_id;
            self.traceparent.flags = theirs.flags;
        }
        if self.client.trusted {
            let is_sound = |id: &&[u8]| {
                (1..=REQUEST_ID_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
            };
            self.given_id = head.get(Name::XRequestId).filter(is_sound);
        }
    }

    /// Who asks.
    pub(crate) fn client(&self) -> &'r Client {
        self.client
    }

    /// The id that its client gave it, where that is believed; none: it has that of its trace.
    pub(crate) fn given_id(&self) -> Option<&'r [u8]> {
        self.given_id
    }

    /// Where it leads is known: it counts as arrived.
    pub(crate) fn arrive(&mut self, pool: Option<usize>, route: &'s [u8]) {
        self.pool = pool;
        self.route = route;
        self.arrived = true;
        self.cells().arrive();
        if let Some(pool) = pool {
            self.shard.active.borrow_mut().pool(self.place, pool);
        }
    }

    /// What it claims of itself at the gate of its pool.
    pub(crate) fn claimed(&mut self, class: Class) {
        self.class = class;
        self.cells().class_arrivals.increment(class.into());
    }

    fn cells(&self) -> &'s PoolMetrics {
        self.shard.metrics.pool(self.pool)
    }

    /// It has come to `stage`.
    pub(crate) fn enter(&self, stage: Stage, now: Instant) {
        self.shard.active.borrow_mut().stage(self.place, stage, now);
    }

    /// It has finished `stage`.
    pub(crate) fn done(&mut self, stage: Stage, now: Instant) {
        self.done[stage.index()] = now;
    }

    /// When it finished `stage`, if it did.
    #[inline]
    fn finished(&self, stage: Stage) -> Option<Instant> {
        let at = self.done[stage.index()];
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    /// Its request is whole, with a body of this length.
    pub(crate) fn received(&mut self, body: u64, now: Instant) {
        self.request_bytes = body;
        self.done(Stage::Intake, now);
    }

    /// It has a permit for this worker.
    pub(crate) fn granted(&mut self, worker: WorkerId, now: Instant) {
        self.worker = Some(worker);
        self.tries += 1;
        self.done(Stage::Admit, now);
        self.shard.active.borrow_mut().granted(self.place, worker, now);
    }

    /// This worker has begun to answer: the one that was granted, or that of a second try.
    pub(crate) fn answered(&mut self, worker: WorkerId, now: Instant) {
        if self.worker != Some(worker) {
            self.worker = Some(worker);
            self.shard.active.borrow_mut().granted(self.place, worker, now);
        }
        self.done(Stage::Dispatch, now);
        self.enter(Stage::Collect, now);
    }

    /// It is tried again.
    pub(crate) fn retried(&self, kind: RetryKind) {
        self.cells().retries.increment(kind);
        self.shard.active.borrow_mut().set_back(self.place);
    }

    /// The exchange has ended: count it, and write its access record.
    pub(crate) fn end(mut self, outcome: Result<(), ExchangeError>) {
        // A delivered answer's end is the moment of its last byte.
        let now = self.finished(Stage::Deliver).unwrap_or_else(clock::now);
        self.ended = true;
        self.count_and_write(&outcome, now);
    }

    fn count_and_write(&self, outcome: &Result<(), ExchangeError>, now: Instant) {
        let end = match outcome {
            Ok(()) => End::Success(StatusClass::of(self.status)),
            Err(error) => match &error.kind {
                Kind::Shed(reason, _) => End::Shed(*reason),
                Kind::Refused(reason, _) => End::Refused(*reason),
                Kind::Failed(reason) => End::Failed(*reason),
                Kind::Abandoned => End::Abandoned(error.stage),
            },
        };
        self.count(end, now);
        self.count_class(end);
        // A panic may have cut off the writing of another record: then that log is not to be had.
        if let Some(Ok(mut log)) = self.shard.log.as_ref().map(|log| log.try_borrow_mut()) {
            self.write(&mut log, end, outcome.as_ref().err(), now);
        }
    }

    fn count(&self, end: End, now: Instant) {
        let cells = self.cells();
        if !self.arrived {
            cells.arrive();
        }
        cells.end(end);
        cells.total.observe(now.since(self.started));
        cells.request_body_bytes.add(self.request_bytes);
        cells.response_body_bytes.add(self.response_bytes);
        cells.spliced_bytes.add(self.spliced_bytes);
        if let Some(reason) = self.relay {
            cells.relayed.increment(reason);
        }
        let mut before = self.started;
        let stages = [
            (Stage::Intake, &cells.stages.intake),
            (Stage::Admit, &cells.stages.admit),
            (Stage::Dispatch, &cells.stages.dispatch),
            (Stage::Collect, &cells.stages.collect),
        ];
        for (stage, histogram) in stages {
            let Some(at) = self.finished(stage) else { return };
            histogram.observe(at.since(before));
            before = at;
        }
        if let Some(at) = self.finished(Stage::Deliver) {
            let begun = self.finished(Stage::Dispatch).unwrap_or(at);
            cells.stages.deliver.observe(at.since(begun));
        }
        self.count_late(cells, end);
    }

    fn count_class(&self, end: End) {
        if self.pool.is_none() {
            return;
        }
        match end {
            End::Success(_) => self.cells().class_successes.increment(self.class.into()),
            End::Shed(_) => self.cells().class_shed.increment(self.class.into()),
            End::Refused(_) | End::Failed(_) | End::Abandoned(_) => {}
        }
    }

    fn count_late(&self, cells: &PoolMetrics, end: End) {
        let within = self.pool.and_then(|pool| self.shard.settings.pools[pool].gate.answer_within);
        let (Some(within), End::Success(_)) = (within, end) else { return };
        let received = self.finished(Stage::Intake).unwrap_or(self.started);
        let answered = self.finished(Stage::Collect).unwrap_or(received);
        if answered.since(received) > within {
            cells.late.increment();
        }
    }

    fn write(&self, log: &mut Log, end: End, error: Option<&ExchangeError>, now: Instant) {
        let wall = log.clock.at(now);
        let out = log.lines.line();
        out.reserve(LINE_USUAL);
        out.extend_from_slice(b"{\"time\":\"");
        log.times.write(out, wall);
        out.extend_from_slice(b"\",\"id\":");
        match self.given_id {
            Some(id) => json::string(out, id),
            None => quoted(out, &self.traceparent.trace_text()),
        }
        out.extend_from_slice(b",\"client\":\"");
        let asks = |head| forward::origin(head, self.client, &self.shard.settings.trusted_from);
        match self.head.map_or(self.client.ip(), asks) {
            Some(ip) => forwarded::write_address(out, ip),
            None => out.push(b'-'),
        }
        out.extend_from_slice(b"\"");
        if let Some(head) = self.head {
            text(out, b",\"method\":", head.method_bytes());
            text(out, b",\"host\":", head.host());
            text(out, b",\"target\":", head.target());
        }
        number(out, b",\"status\":", u64::from(self.status));
        out.extend_from_slice(b",\"route\":");
        out.extend_from_slice(self.route);
        if let Some(pool) = self.pool {
            out.extend_from_slice(b",\"pool\":");
            out.extend_from_slice(&self.shard.pools[pool].name);
            text(out, b",\"class\":", self.class.name().as_bytes());
            if let Some(caller) = self.caller(pool) {
                text(out, b",\"caller\":", caller);
            }
        }
        if let Some(worker) = self.worker {
            number(out, b",\"worker\":", u64::from(worker.0));
        }
        self.write_end(out, end, error);
        number(out, b",\"tries\":", u64::from(self.tries + self.hedges.granted()));
        if let Some(hedge) = self.hedges.last() {
            text(out, b",\"hedge\":", hedge.name().as_bytes());
        }
        number(out, b",\"request_bytes\":", self.request_bytes);
        number(out, b",\"response_bytes\":", self.response_bytes);
        if let Some(relay) = self.relay {
            text(out, b",\"relay\":", relay.name().as_bytes());
        }
        self.write_time(out, b",\"intake_ms\":", Stage::Intake);
        self.write_time(out, b",\"admit_ms\":", Stage::Admit);
        self.write_time(out, b",\"dispatch_ms\":", Stage::Dispatch);
        self.write_time(out, b",\"collect_ms\":", Stage::Collect);
        self.write_time(out, b",\"deliver_ms\":", Stage::Deliver);
        out.extend_from_slice(b",\"total_ms\":");
        json::millis(out, now.since(self.started));
        out.push(b'}');
        log.lines.commit();
    }

    /// Who asks, by the name that a field of this pool gives it, where that is believed.
    fn caller(&self, pool: usize) -> Option<&'r [u8]> {
        let name = self.shard.settings.pools[pool].claim.caller_header.as_ref()?;
        let head = self.head.filter(|_| self.client.steers)?;
        head.find(name.as_bytes())
    }

    /// From the first byte of the request to the end of `stage`.
    #[inline]
    fn write_time<const N: usize>(&self, out: &mut Vec<u8>, key: &[u8; N], stage: Stage) {
        if let Some(at) = self.finished(stage) {
            out.extend_from_slice(key);
            json::millis(out, at.since(self.started));
        }
    }

    fn write_end(&self, out: &mut Vec<u8>, end: End, error: Option<&ExchangeError>) {
        let (word, reason) = match end {
            End::Success(_) => return out.extend_from_slice(b",\"end\":\"success\""),
            End::Shed(reason) => ("shed", reason.name()),
            End::Refused(reason) => ("refused", reason.name()),
            End::Failed(reason) => ("failed", reason.name()),
            End::Abandoned(stage) => ("abandoned", stage.name()),
        };
        text(out, b",\"end\":", word.as_bytes());
        text(out, b",\"reason\":", reason.as_bytes());
        if let Some(error) = error {
            text(out, b",\"blame\":", error.blame().name().as_bytes());
            if let Kind::Refused(_, words) = error.kind {
                text(out, b",\"details\":", words.as_bytes());
            }
        }
    }
}

impl Drop for Record<'_, '_> {
    fn drop(&mut self) {
        self.shard.active.borrow_mut().end(self.place);
        if !self.ended {
            // Cut off in the middle: by a panic, or by the end of the drain.
            let cut_off = Err(ExchangeError::failed(Stage::Record, FailReason::Internal));
            self.count_and_write(&cut_off, clock::now());
        }
    }
}

/// The access log of one shard.
pub(crate) struct Log {
    pub(crate) lines: LineBuffer,
    times: Timestamps,
    clock: clock::DayClock,
}

impl Log {
    /// A log that gathers its lines there.
    pub(crate) fn new(lines: LineBuffer) -> Log {
        Log { lines, times: Timestamps::new(), clock: clock::DayClock::default() }
    }
}

/// Append a key of the record, written with its punctuation, and a text.
#[inline]
fn text<const N: usize>(out: &mut Vec<u8>, key: &[u8; N], value: &[u8]) {
    out.extend_from_slice(key);
    json::string(out, value);
}

/// Append a text of ours, of which no byte needs an escape.
#[inline]
fn quoted<const N: usize>(out: &mut Vec<u8>, text: &[u8; N]) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Append a key of the record, written with its punctuation, and a number.
#[inline]
fn number<const N: usize>(out: &mut Vec<u8>, key: &[u8; N], value: u64) {
    out.extend_from_slice(key);
    json::number(out, value);
}
