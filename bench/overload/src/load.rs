//! The clients. The load is open: requests are sent when they were drawn to be sent, however many
//! still wait, and all times count from then (Tene: How NOT to Measure Latency, 2013).
//!
//! One thread and one epoll set for all of them. A client gives up at the service level and closes
//! its connection; it takes an idle connection or opens another, never waits for one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use crate::http;
use crate::plan::{Arrival, Micros, Plan};
use crate::poll::{Clock, Poll};
use crate::report::{Outcome, Try};

/// Addresses that clients come from: a closed connection keeps its port for a minute, and 28,000
/// ports of one address would not last for a crowd that gives up.
const SOURCES: u64 = 64;

/// Longest wait for an event, in microseconds.
const WAIT_MAX: Micros = 100_000;

/// A connection of a client.
struct Connection {
    stream: TcpStream,
    current: Option<Current>,
    /// What could not be written yet.
    unsent: Vec<u8>,
    received: Vec<u8>,
    /// Has it carried an answer before?
    is_reused: bool,
}

/// A try under way.
#[derive(Clone, Copy)]
struct Current {
    request: usize,
    tried: u32,
    start: Micros,
    sent: Micros,
}

/// What is due at a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The client on a connection gives up on a request.
    GiveUp { connection: u64, request: usize, tried: u32 },
    /// A client tries again.
    Retry { request: usize, tried: u32 },
}

struct Load<'a> {
    plan: &'a Plan,
    arrivals: &'a [Arrival],
    target: SocketAddr,
    clock: Clock,
    poll: Poll,
    connections: HashMap<u64, Connection>,
    idle: Vec<u64>,
    next: u64,
    timers: BinaryHeap<Reverse<(Micros, Timer)>>,
    /// Requests that have not ended.
    open: usize,
    tries: Vec<Try>,
}

/// Sends everything to `target`; what became of each try.
pub fn run(
    plan: &Plan,
    arrivals: &[Arrival],
    target: SocketAddr,
    clock: Clock,
) -> io::Result<Vec<Try>> {
    let mut load = Load {
        plan,
        arrivals,
        target,
        clock,
        poll: Poll::new()?,
        connections: HashMap::new(),
        idle: Vec::new(),
        next: 0,
        timers: BinaryHeap::new(),
        open: arrivals.len(),
        tries: Vec::with_capacity(arrivals.len()),
    };
    load.poll.wait(clock.until_begin())?;
    let mut due = 0;
    while load.open > 0 {
        while due < arrivals.len() && arrivals[due].at <= clock.now() {
            load.send(due, 1, arrivals[due].at)?;
            due += 1;
        }
        load.fire()?;
        let arrival = arrivals.get(due).map_or(Micros::MAX, |arrival| arrival.at);
        let timer = load.timers.peek().map_or(Micros::MAX, |Reverse((at, _))| *at);
        let wait = arrival.min(timer).saturating_sub(clock.now());
        for number in load.poll.wait(wait.min(WAIT_MAX))? {
            load.turn(number)?;
        }
    }
    Ok(load.tries)
}

impl Load<'_> {
    fn fire(&mut self) -> io::Result<()> {
        while self.timers.peek().is_some_and(|Reverse((at, _))| *at <= self.clock.now()) {
            match self.timers.pop() {
                Some(Reverse((_, Timer::GiveUp { connection, request, tried }))) => {
                    let current = self.connections.get(&connection).and_then(|one| one.current);
                    let is_same =
                        current.is_some_and(|one| (one.request, one.tried) == (request, tried));
                    if is_same {
                        self.end(connection, Outcome::GaveUp);
                    }
                }
                Some(Reverse((at, Timer::Retry { request, tried }))) => {
                    self.send(request, tried, at)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Begins a try that is meant to start at `start`.
    fn send(&mut self, request: usize, tried: u32, start: Micros) -> io::Result<()> {
        let current = Current { request, tried, start, sent: self.clock.now() };
        let number = match self.idle.pop() {
            Some(number) => number,
            None => self.connect()?,
        };
        self.put(number, current);
        Ok(())
    }

    /// Gives a connection its try.
    fn put(&mut self, number: u64, current: Current) {
        let Current { request, tried, start, .. } = current;
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let arrival = &self.arrivals[request];
        let path = &self.plan.services[arrival.service].2;
        connection.current = Some(current);
        connection.unsent = http::request(path, request, arrival.class, arrival.tenant);
        let give_up = Timer::GiveUp { connection: number, request, tried };
        self.timers.push(Reverse((start + self.plan.slo(), give_up)));
        self.write(number);
    }

    fn connect(&mut self) -> io::Result<u64> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        let source = Ipv4Addr::new(127, 0, 1, 1 + (self.next % SOURCES) as u8);
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        // A refusal shows as an event on the socket; here only our own want of ports would.
        if let Err(error) = socket.connect(&self.target.into())
            && error.kind() == ErrorKind::AddrNotAvailable
        {
            return Err(error);
        }
        let number = self.next;
        self.next += 1;
        self.poll.add(&socket, number, true)?;
        let connection = Connection {
            stream: socket.into(),
            current: None,
            unsent: Vec::new(),
            received: Vec::new(),
            is_reused: false,
        };
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// Something has happened on a connection.
    fn turn(&mut self, number: u64) -> io::Result<()> {
        self.write(number);
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(()) };
        let mut room = [0; 4096];
        let has_ended = loop {
            match connection.stream.read(&mut room) {
                Ok(0) => break true,
                Ok(count) => connection.received.extend_from_slice(&room[..count]),
                Err(error) => break !is_soon(&error),
            }
        };
        if connection.current.is_none() {
            if has_ended {
                self.close(number);
            }
            return Ok(());
        }
        if let Some(answer) = http::answered(&connection.received, has_ended) {
            self.answered(number, answer.status, answer.keeps);
        } else if has_ended && connection.is_reused && connection.received.is_empty() {
            // It was closed while idle: no answer will come, and none was begun.
            if let Some(current) = connection.current.take() {
                self.close(number);
                let fresh = self.connect()?;
                self.put(fresh, current);
            }
        } else if has_ended {
            self.end(number, Outcome::Broken);
        }
        Ok(())
    }

    fn write(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.unsent.is_empty() {
            return;
        }
        // Heads are far smaller than any socket buffer: all or nothing. An error other than that it
        // is too early is read back as the end.
        if let Ok(count) = connection.stream.write(&connection.unsent) {
            connection.unsent.drain(..count);
            let _ = self.poll.change(&connection.stream, number, false);
        }
    }

    fn answered(&mut self, number: u64, status: u16, keeps: bool) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some(current) = connection.current.take() else { return };
        let in_time = self.clock.now() <= current.start + self.plan.slo();
        connection.received.clear();
        connection.is_reused = true;
        if keeps {
            self.idle.push(number);
        } else {
            self.close(number);
        }
        let outcome = match status {
            200 if in_time => Outcome::Good,
            200 => Outcome::GaveUp,
            status => Outcome::Status(status),
        };
        self.note(current, outcome);
    }

    /// Ends the try of a connection, and the connection with it.
    fn end(&mut self, number: u64, outcome: Outcome) {
        let current = self.connections.get(&number).and_then(|connection| connection.current);
        self.close(number);
        if let Some(current) = current {
            self.note(current, outcome);
        }
    }

    fn close(&mut self, number: u64) {
        self.connections.remove(&number);
        if let Some(at) = self.idle.iter().rposition(|idle| *idle == number) {
            self.idle.remove(at);
        }
    }

    fn note(&mut self, current: Current, outcome: Outcome) {
        let Current { request, tried, start, sent } = current;
        let end = self.clock.now();
        let is_last = outcome == Outcome::Good || tried == self.plan.tries;
        self.tries.push(Try { request, start, sent, end, outcome, is_last });
        if is_last {
            self.open -= 1;
        } else {
            let at = end + self.plan.backoff(request, tried + 1);
            self.timers.push(Reverse((at, Timer::Retry { request, tried: tried + 1 })));
        }
    }
}

fn is_soon(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
