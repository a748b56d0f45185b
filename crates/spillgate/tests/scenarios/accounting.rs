//! The books: every arrival has one end, one count and one access record, whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use spillgate_core::rng::Rng;

use crate::harness::{Config, Echo, HeldPort, Link, Metrics, Spillgate, until};

/// Requests of each client.
const TURNS: usize = 60;
const CLIENTS: usize = 8;
/// The pools; the last stands for what belongs to none.
const POOLS: [&str; 3] = ["app", "other", ""];
/// Ends, with the words of the records.
const ENDS: [(&str, &str); 5] = [
    ("success", "spillgate_exchange_successes_total"),
    ("shed", "spillgate_exchange_shed_total"),
    ("refused", "spillgate_exchange_refused_total"),
    ("failed", "spillgate_exchange_failed_total"),
    ("abandoned", "spillgate_exchange_abandoned_total"),
];

fn arrivals(metrics: &Metrics, pool: &str) -> u64 {
    metrics.sum("spillgate_exchange_arrivals_total", &[("pool", pool)])
}

fn in_progress(metrics: &Metrics, pool: &str) -> u64 {
    metrics.sum("spillgate_exchanges_in_progress", &[("pool", pool)])
}

fn ended(metrics: &Metrics, pool: &str) -> u64 {
    ENDS.iter().map(|(_, name)| metrics.sum(name, &[("pool", pool)])).sum()
}

#[track_caller]
fn expect_balance(metrics: &Metrics) {
    for pool in POOLS {
        let sum = ended(metrics, pool) + in_progress(metrics, pool);
        assert_eq!(arrivals(metrics, pool), sum, "pool {pool:?}");
    }
}

/// The numbers once so many have come, and so many have not ended. A page that is made while
/// something ends may show it in two states, so the one that is returned is made afterwards.
#[track_caller]
fn quiet(spillgate: &Spillgate, came: u64, left: u64) -> Metrics {
    until("every arrival, and the ends", || {
        let metrics = spillgate.metrics();
        let sum = |of: fn(&Metrics, &str) -> u64| POOLS.iter().map(|pool| of(&metrics, pool)).sum();
        let (arrived, open): (u64, u64) = (sum(arrivals), sum(in_progress));
        (arrived == came && open == left).then_some(())
    });
    spillgate.metrics()
}

/// A pool that is small for its crowd, one that is not, and routes to both by host.
fn config(app: &[HeldPort], other: &Echo) -> Config {
    let addresses: Vec<_> = app.iter().map(HeldPort::address).collect();
    let sections = format!(
        "[pool.other]\nendpoints = [\"{}\"]\n\
         [[route]]\nhost = \"app.example\"\npool = \"app\"\n\
         [[route]]\nhost = \"other.example\"\npool = \"other\"\n\
         [[route]]\npath_exact = \"/ping\"\nreply = {{ status = 200, body = \"PONG\" }}\n",
        other.address()
    );
    Config::of(&addresses)
        .top("shards = 2")
        .pool("queue_len_max = 3")
        .pool("queue_wait_max = \"50ms\"")
        .pool("probe_interval = \"10ms\"")
        .pool("body_size_max = \"1KiB\"")
        .section(&sections)
}

/// One random request; most are good.
fn request(rng: &mut Rng) -> &'static str {
    match rng.next_u64() % 16 {
        0..5 => "GET /a HTTP/1.1\r\nHost: app.example\r\n\r\n",
        5..8 => "POST /a HTTP/1.1\r\nHost: app.example\r\nContent-Length: 2\r\n\r\nhi",
        8 => "GET /die HTTP/1.1\r\nHost: app.example\r\n\r\n",
        9 => "GET /status/500 HTTP/1.1\r\nHost: app.example\r\n\r\n",
        10 => "POST /a HTTP/1.1\r\nHost: app.example\r\nContent-Length: 2000\r\n\r\n",
        11 => "GET /b HTTP/1.1\r\nHost: other.example\r\n\r\n",
        12 => "GET / HTTP/1.1\r\nHost: unknown.example\r\n\r\n",
        13 => "GET / HTTP/1.1\r\n\r\n",
        14 => "GET /ping HTTP/1.1\r\nHost: unknown.example\r\n\r\n",
        _ => "GET /bytes/200000 HTTP/1.1\r\nHost: app.example\r\n\r\n",
    }
}

/// A client that asks, and now and then leaves without an answer.
fn client(spillgate: &Spillgate, seed: u64, asked: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let (address, asked) = (spillgate.address(), Arc::clone(asked));
    thread::spawn(move || {
        let mut rng = Rng::new(seed);
        for _ in 0..TURNS {
            let mut link = Link::connect(address).expect("Spillgate accepts connections");
            let request = request(&mut rng);
            asked.fetch_add(1, Ordering::AcqRel);
            if rng.next_u64().is_multiple_of(6) {
                link.send(request);
            } else {
                // A broken answer is an answer here.
                let _ = link.try_ask(request);
            }
        }
    })
}

#[test]
fn arrivals_are_ends_and_what_is_in_progress() {
    let ports = [HeldPort::any(), HeldPort::any(), HeldPort::any()];
    let other = Echo::start();
    let spillgate = Spillgate::start(config(&ports, &other));
    let begin = |port| {
        let worker = Echo::on(port);
        worker.takes(Duration::from_millis(2));
        worker
    };
    let mut workers: Vec<Echo> = ports.iter().map(begin).collect();
    let asked = Arc::<AtomicUsize>::default();
    let clients: Vec<_> =
        (0..).take(CLIENTS).map(|seed| client(&spillgate, seed, &asked)).collect();
    for round in 1.. {
        let wanted = (round * 40).min(CLIENTS * TURNS);
        until("more requests", || (asked.load(Ordering::Acquire) >= wanted).then_some(()));
        if wanted == CLIENTS * TURNS {
            break;
        }
        let victim = round % ports.len();
        let mortal = workers.remove(victim);
        assert!(mortal.most_inside() <= 1, "{} at once", mortal.most_inside());
        mortal.kill();
        workers.insert(victim, begin(&ports[victim]));
        // It is a page that a scraper can read at any time.
        let metrics = spillgate.metrics();
        assert!(arrivals(&metrics, "app") > 0);
    }
    for client in clients {
        client.join().expect("no panic");
    }
    let metrics = quiet(&spillgate, (CLIENTS * TURNS) as u64, 0);
    expect_balance(&metrics);
    expect_records(&spillgate, &metrics);
    assert!(workers.iter().chain([&other]).all(|worker| worker.most_inside() <= 1));

    // One that is held is in progress, and nowhere else.
    other.hold();
    let mut client = spillgate.connect();
    client.send("GET /held HTTP/1.1\r\nHost: other.example\r\n\r\n");
    other.wait_inside(1);
    let metrics = quiet(&spillgate, (CLIENTS * TURNS) as u64 + 1, 1);
    assert_eq!(in_progress(&metrics, "other"), 1);
    expect_balance(&metrics);
    other.let_all_go();
    assert_eq!(client.receive_response().status(), 200);
}

/// Each exchange has one access record, which says how it ended.
#[track_caller]
fn expect_records(spillgate: &Spillgate, metrics: &Metrics) {
    let all = CLIENTS * TURNS;
    let records = until("all records", || {
        let records = spillgate.records();
        (records.len() >= all).then_some(records)
    });
    assert_eq!(records.len(), all);
    let mut written: BTreeMap<(String, String), u64> = BTreeMap::new();
    for record in &records {
        let of = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        *written.entry((of("pool"), of("end"))).or_default() += 1;
    }
    let mut counted = BTreeMap::new();
    for pool in POOLS {
        for (word, name) in ENDS {
            let count = metrics.sum(name, &[("pool", pool)]);
            if count > 0 {
                counted.insert((pool.to_owned(), word.to_owned()), count);
            }
        }
    }
    assert_eq!(written, counted);
    for (word, _) in ENDS {
        assert!(written.keys().any(|(_, end)| end == word), "nothing was {word}: {written:?}");
    }
}
