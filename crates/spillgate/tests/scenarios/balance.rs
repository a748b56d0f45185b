//! Which worker an exchange gets, by each `balance`.

use std::time::Duration;

use crate::harness::{Agent, Config, Echo, HeldPort, Spillgate, get};

/// Workers that answer at once.
fn echoes(count: usize) -> Vec<Echo> {
    (0..count).map(|_| Echo::start()).collect()
}

/// A pool of these, on one shard, so that all connections are at hand.
fn config(echoes: &[Echo]) -> Config {
    let addresses: Vec<_> = echoes.iter().map(Echo::address).collect();
    Config::of(&addresses).top("shards = 1")
}

/// The endpoints with a weight each.
fn weighed(echoes: &[Echo], weights: &[u32]) -> Config {
    let entry = |(echo, weight): (&Echo, &u32)| {
        format!("{{ address = \"{}\", weight = {weight} }}", echo.address())
    };
    let entries: Vec<_> = echoes.iter().zip(weights).map(entry).collect();
    let line = format!("endpoints = [{}]", entries.join(", "));
    Config::new().top("shards = 1").pool(&line)
}

fn start(echoes: &[Echo], config: Config) -> Spillgate {
    let spillgate = Spillgate::start(config);
    spillgate.wait_up(echoes.len());
    spillgate
}

/// Ask for these, one after the other; how many each worker got.
fn spread(spillgate: &Spillgate, echoes: &[Echo], requests: &[String]) -> Vec<usize> {
    let before: Vec<_> = echoes.iter().map(|echo| echo.seen().len()).collect();
    for request in requests {
        assert_eq!(spillgate.ask(request).status(), 200);
    }
    echoes.iter().zip(before).map(|(echo, before)| echo.seen().len() - before).collect()
}

#[test]
fn endpoints_get_their_share_by_weight() {
    let echoes = echoes(3);
    let spillgate = start(&echoes, weighed(&echoes, &[1, 2, 5]));
    assert_eq!(spread(&spillgate, &echoes, &vec![get("/"); 40]), [5, 10, 25]);
    let weights = spillgate.pool()["workers"][2]["weight"].clone();
    assert_eq!(weights, 5);
}

#[test]
fn a_weight_that_an_agent_says_is_measured_by_that_of_the_file() {
    let (echoes, port) = (echoes(1), HeldPort::any());
    let agent = Agent::on(&port, "weight:3 up ready\n");
    let agents = format!("agents = [\"{}\"]\nagent_interval = \"20ms\"", agent.address());
    let spillgate = start(&echoes, weighed(&echoes, &[4]).pool(&agents));
    spillgate.wait_pool("the agent's word", |pool| {
        pool["workers"][0]["weight_percent"] == 75 && pool["workers"][0]["weight"] == 4
    });
}

#[test]
fn the_first_is_filled_before_the_next() {
    let echoes = echoes(3);
    let keys = "balance = \"first\"\nslots = 2";
    let spillgate = start(&echoes, config(&echoes).pool(keys));
    assert_eq!(spread(&spillgate, &echoes, &vec![get("/"); 10]), [10, 0, 0]);
    echoes[0].hold();
    let inside: Vec<_> = (1..=2)
        .map(|count| {
            let mut client = spillgate.connect();
            client.send(get("/inside"));
            echoes[0].wait_inside(count);
            client
        })
        .collect();
    assert_eq!(spread(&spillgate, &echoes, &vec![get("/"); 5]), [0, 5, 0]);
    echoes[0].let_all_go();
    for mut client in inside {
        assert_eq!(client.receive_response().status(), 200);
    }
}

#[test]
fn the_slow_one_is_left_alone() {
    let echoes = echoes(3);
    echoes[1].takes(Duration::from_millis(300));
    let spillgate = start(&echoes, config(&echoes).pool("balance = \"least_loaded\"\nslots = 4"));
    let counts = spread(&spillgate, &echoes, &vec![get("/"); 60]);
    assert!(counts[1] <= 2, "{counts:?}");
}

#[test]
fn the_same_key_gets_the_same_worker() {
    let path = |number: usize| get(&format!("/picture/{number}?size={number}"));
    let user = |name: &str| {
        format!("GET /any/{name} HTTP/1.1\r\nHost: a.example\r\nX-User: {}\r\n\r\n", &name[..1])
    };
    let keys = "balance = \"hash\"\nslots = 8\nhash_header = \"x-user\"";
    let echoes = echoes(4);
    let spillgate = start(&echoes, config(&echoes).pool(keys));
    let owner = |requests: &[String]| {
        let counts = spread(&spillgate, &echoes, requests);
        let owner = counts.iter().position(|count| *count == requests.len());
        owner.unwrap_or_else(|| panic!("{counts:?}"))
    };
    let owners: Vec<_> = (0..20).map(|number| owner(&vec![path(number); 3])).collect();
    let is_used = |worker: usize| owners.contains(&worker);
    assert!((0..4).all(is_used), "{owners:?}");
    // The field takes the place of the path.
    owner(&["a1", "a2", "a3"].map(user));
    owner(&["b1", "b2", "b3"].map(user));
}

#[test]
fn a_client_is_a_key_where_its_address_is() {
    let keys = "balance = \"hash\"\nslots = 8\nhash_by = \"address\"";
    let echoes = echoes(3);
    let spillgate = start(&echoes, config(&echoes).pool(keys));
    let requests: Vec<_> = (0..20).map(|number| get(&format!("/{number}"))).collect();
    let counts = spread(&spillgate, &echoes, &requests);
    assert!(counts.contains(&20), "{counts:?}");
}

#[test]
fn who_comes_back_climbs() {
    let (other, port) = (Echo::start(), HeldPort::any());
    let first = Echo::on(&port);
    let config = Config::of(&[port.address(), other.address()]).top("shards = 1");
    let keys = "slots = 4\nramp_time = \"1h\"\nprobe_interval_up = \"20ms\"\nprobe_fall = 1";
    let spillgate = Spillgate::start(config.pool(keys));
    spillgate.wait_up(2);
    assert_eq!(spillgate.pool()["slots"], 8, "those with which it begins are warm");
    first.kill();
    spillgate.wait_pool("a worker that is out", |pool| pool["workers"][0]["state"] != "up");
    let first = Echo::on(&port);
    spillgate.wait_up(2);
    let pool = spillgate.pool();
    assert_eq!((&pool["workers"][0]["slots"], &pool["slots"]), (&1.into(), &5.into()));
    assert_eq!(pool["workers"][0]["weight_percent"], 1);
    // It gets its one, and no second one beside it.
    first.hold();
    let mut inside = spillgate.connect();
    other.hold();
    inside.send(get("/inside"));
    let mut clients: Vec<_> = (0..4).map(|_| spillgate.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(get("/inside")));
    other.wait_inside(4);
    first.wait_inside(1);
    first.let_all_go();
    other.let_all_go();
    for mut client in clients.into_iter().chain([inside]) {
        assert_eq!(client.receive_response().status(), 200);
    }
}
