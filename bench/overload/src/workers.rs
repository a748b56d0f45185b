//! The workers: each takes one request at a time and needs exactly as long for it as was drawn.
//!
//! They are as naive as synchronous workers are: what is sent beyond one request waits inside, a
//! request is worked on to its end though its client has gone, and a health check waits like
//! everything else. All live in one thread, since a service time is a timer and costs nothing;
//! faults break, close or delay what an operating system would.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::http::{self, Asked};
use crate::plan::{Arrival, Fault, Micros, Plan, What, micros};
use crate::poll::{Clock, Poll};
use crate::report::quantile;

/// An address of their own, so that no outgoing connection can be given a port of theirs while they
/// are away.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Connections that may wait to be accepted: plain choice, above any crowd here.
const BACKLOG: i32 = 4096;

/// The longest wait, in microseconds: how soon the thread notices that the run has begun or ended.
const WAIT_MAX: Micros = 10_000;

/// How much slower a slow worker is.
const SLOW_FACTOR: Micros = 4;

/// The running workers.
pub struct Crew {
    /// Where they listen.
    pub addresses: Vec<SocketAddr>,
    clock: Arc<OnceLock<Clock>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Value>>,
}

impl Crew {
    /// Makes all of them listen.
    pub fn start(plan: Arc<Plan>, arrivals: Arc<Vec<Arrival>>) -> io::Result<Crew> {
        let any = SocketAddr::from((ADDRESS, 0));
        let listeners: Vec<TcpListener> =
            (0..plan.workers).map(|_| listen(any)).collect::<io::Result<_>>()?;
        let addresses: Vec<SocketAddr> =
            listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let (clock, is_over) = (Arc::default(), Arc::default());
        let (their_clock, their_end) = (Arc::clone(&clock), Arc::clone(&is_over));
        let at = addresses.clone();
        let thread = thread::spawn(move || {
            Site::new(&plan, &arrivals, &at, listeners)?.run(&their_clock, &their_end)
        });
        Ok(Crew { addresses, clock, is_over, thread })
    }

    /// Tells them when the run begins, and so when each fault comes.
    pub fn begin(&self, clock: Clock) {
        self.clock.get_or_init(|| clock);
    }

    /// Ends them; what they counted.
    pub fn stop(self) -> io::Result<Value> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the workers' thread panicked"))?
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// One worker.
struct Worker {
    address: SocketAddr,
    listener: Option<TcpListener>,
    /// When it listens again.
    returns: Option<Micros>,
    /// What it was sent; it works on the first.
    inside: VecDeque<Job>,
    /// When the first of them is done.
    done: Option<Micros>,
    /// When the one before was done.
    freed: Micros,
    hangs_until: Micros,
    slow_until: Micros,
    refuses_until: Micros,
}

/// A request inside a worker.
struct Job {
    connection: u64,
    asked: Asked,
}

/// A connection to a worker.
struct Connection {
    stream: TcpStream,
    worker: usize,
    bytes: Vec<u8>,
}

/// What is counted over all workers.
#[derive(Default)]
struct Counts {
    arrived: u64,
    answered: u64,
    refused: u64,
    lost: u64,
    inside_max: usize,
    /// Time between two answers beyond the service time, of all requests after the warm-up.
    turnarounds: Vec<Micros>,
}

struct Site<'a> {
    plan: &'a Plan,
    arrivals: &'a [Arrival],
    poll: Poll,
    workers: Vec<Worker>,
    connections: HashMap<u64, Connection>,
    /// The number of the next connection; those below the count of workers are their listeners'.
    next: u64,
    faults: VecDeque<Fault>,
    counts: Counts,
}

impl<'a> Site<'a> {
    fn new(
        plan: &'a Plan,
        arrivals: &'a [Arrival],
        addresses: &[SocketAddr],
        listeners: Vec<TcpListener>,
    ) -> io::Result<Site<'a>> {
        let poll = Poll::new()?;
        for (number, listener) in listeners.iter().enumerate() {
            poll.add(listener, number as u64, false)?;
        }
        let workers = addresses.iter().zip(listeners).map(|(address, listener)| Worker {
            address: *address,
            listener: Some(listener),
            returns: None,
            inside: VecDeque::new(),
            done: None,
            freed: 0,
            hangs_until: 0,
            slow_until: 0,
            refuses_until: 0,
        });
        let mut faults = plan.faults.clone();
        faults.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        Ok(Site {
            plan,
            arrivals,
            poll,
            workers: workers.collect(),
            connections: HashMap::new(),
            next: addresses.len() as u64,
            faults: faults.into(),
            counts: Counts::default(),
        })
    }

    fn run(mut self, clock: &OnceLock<Clock>, is_over: &AtomicBool) -> io::Result<Value> {
        let now = || clock.get().map_or(0, Clock::now);
        while !is_over.load(Ordering::Relaxed) {
            self.befall(now());
            for worker in 0..self.workers.len() {
                self.work(worker, now())?;
            }
            let wait = self.next_time().saturating_sub(now()).min(WAIT_MAX);
            for number in self.poll.wait(wait)? {
                if (number as usize) < self.workers.len() {
                    self.accept(number as usize)?;
                } else {
                    self.read(number, now());
                }
            }
        }
        Ok(self.counts.json())
    }

    /// When something is next due.
    fn next_time(&self) -> Micros {
        let workers = self.workers.iter();
        let due = workers.flat_map(|worker| [worker.due(), worker.returns]).flatten().min();
        let fault = self.faults.front().map(|fault| micros(fault.at_s));
        due.into_iter().chain(fault).min().unwrap_or(Micros::MAX)
    }

    /// Lets the faults come that are due.
    fn befall(&mut self, now: Micros) {
        while let Some(fault) = self.faults.pop_front_if(|fault| micros(fault.at_s) <= now) {
            let until = now + micros(fault.for_s);
            let worker = &mut self.workers[fault.worker];
            match fault.what {
                What::Hang => worker.hangs_until = until,
                What::Slow => worker.slow_until = until,
                What::Refuse => worker.refuses_until = until,
                What::Kill => {
                    worker.listener = None;
                    worker.returns = Some(until);
                    worker.done = None;
                    self.counts.lost += worker.requests() as u64;
                    worker.inside.clear();
                    self.connections.retain(|_, one| one.worker != fault.worker);
                }
                What::Restart => {
                    worker.listener = None;
                    worker.returns = Some(until);
                    let inside = &worker.inside;
                    self.connections.retain(|number, one| {
                        one.worker != fault.worker
                            || inside.iter().any(|job| job.connection == *number)
                    });
                }
            }
        }
    }

    /// Ends what is done, begins what is next, comes back.
    fn work(&mut self, index: usize, now: Micros) -> io::Result<()> {
        loop {
            let worker = &mut self.workers[index];
            if worker.returns.is_some_and(|at| at <= now) && worker.inside.is_empty() {
                let listener = listen(worker.address)?;
                self.poll.add(&listener, index as u64, false)?;
                worker.listener = Some(listener);
                worker.returns = None;
            }
            if worker.done.is_none() {
                let Some(job) = worker.inside.front() else { return Ok(()) };
                let factor = if now < worker.slow_until { SLOW_FACTOR } else { 1 };
                worker.done = Some(now + job.asked.service_time(self.arrivals) * factor);
            }
            if worker.due().is_none_or(|at| at > now) {
                return Ok(());
            }
            worker.done = None;
            let Some(job) = worker.inside.pop_front() else { return Ok(()) };
            if let Asked::Numbered(_) = job.asked {
                self.counts.answered += 1;
                if now > micros(self.plan.warm_up_s) {
                    let spent =
                        (now - worker.freed).saturating_sub(job.asked.service_time(self.arrivals));
                    self.counts.turnarounds.push(spent);
                }
            }
            worker.freed = now;
            let is_last = worker.listener.is_none();
            self.answer(job.connection, "200 OK", is_last);
            self.take(job.connection, now);
        }
    }

    fn accept(&mut self, worker: usize) -> io::Result<()> {
        let Some(listener) = &self.workers[worker].listener else { return Ok(()) };
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            self.poll.add(&stream, self.next, false)?;
            self.connections.insert(self.next, Connection { stream, worker, bytes: Vec::new() });
            self.next += 1;
        }
        Ok(())
    }

    fn read(&mut self, number: u64, now: Micros) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let mut room = [0; 4096];
        loop {
            match connection.stream.read(&mut room) {
                Ok(0) => break,
                Ok(count) => connection.bytes.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.take(number, now);
                    return;
                }
                Err(_) => break,
            }
        }
        // What it had sent stays inside: the worker does not look for its client.
        self.take(number, now);
        self.connections.remove(&number);
    }

    /// Takes in the next request of a connection, if it is there.
    fn take(&mut self, number: u64, now: Micros) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some((asked, length)) = http::asked(&connection.bytes) else { return };
        connection.bytes.drain(..length);
        let worker = &mut self.workers[connection.worker];
        let is_request = matches!(asked, Asked::Numbered(_));
        if now < worker.refuses_until {
            self.counts.refused += u64::from(is_request);
            self.answer(number, "503 Service Unavailable", false);
            return;
        }
        worker.inside.push_back(Job { connection: number, asked });
        if is_request {
            self.counts.arrived += 1;
            self.counts.inside_max = self.counts.inside_max.max(worker.requests());
        }
    }

    fn answer(&mut self, number: u64, status: &str, is_last: bool) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let written = connection.stream.write_all(&http::answer(status, is_last));
        if is_last || written.is_err() {
            self.connections.remove(&number);
        }
    }
}

impl Worker {
    /// When the one that it works on ends.
    fn due(&self) -> Option<Micros> {
        self.done.map(|at| at.max(self.hangs_until))
    }

    /// How many requests are in it, health checks not counted.
    fn requests(&self) -> usize {
        self.inside.iter().filter(|job| matches!(job.asked, Asked::Numbered(_))).count()
    }
}

impl Asked {
    fn service_time(&self, arrivals: &[Arrival]) -> Micros {
        match self {
            Asked::Numbered(number) => arrivals.get(*number).map_or(0, |one| one.service_time),
            Asked::Probe => 0,
        }
    }
}

impl Counts {
    fn json(mut self) -> Value {
        self.turnarounds.sort_unstable();
        json!({
            "arrived": self.arrived,
            "answered": self.answered,
            "refused": self.refused,
            "lost": self.lost,
            "inside_max": self.inside_max,
            "turnaround_us": quantile(&self.turnarounds, 0.5),
        })
    }
}
