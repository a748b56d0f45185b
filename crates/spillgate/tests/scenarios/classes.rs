//! Classes, tenants and deadlines, as clients say them and workers notice.

use serde_json::Value;

use crate::harness::{Config, Echo, Link, Spillgate};

/// A request for `target` with these header lines.
fn get_with(target: &str, fields: &str) -> String {
    let fields: String = fields.lines().map(|field| format!("{}\r\n", field.trim())).collect();
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")
}

/// One worker that holds what it is sent, and one exchange in it.
fn busy(change: impl FnOnce(Config) -> Config) -> (Echo, Spillgate, Link) {
    let worker = Echo::holding();
    let config = change(Config::of(&[worker.address()]).top("shards = 1"));
    let spillgate = Spillgate::start(config);
    let mut inside = spillgate.connect();
    inside.send(get_with("/inside", ""));
    worker.wait_inside(1);
    (worker, spillgate, inside)
}

/// Clients that wait in the queue in this order, each with its target and fields.
#[track_caller]
fn queue_up(spillgate: &Spillgate, requests: &[(&str, &str)]) -> Vec<Link> {
    let join = |(index, (target, fields)): (usize, &(&str, &str))| {
        let mut client = spillgate.connect();
        client.send(get_with(target, fields));
        spillgate.wait_queue(index + 1);
        client
    };
    requests.iter().enumerate().map(join).collect()
}

/// Let everybody be answered; the targets in the order in which the worker got them.
#[track_caller]
fn serve_all(worker: &Echo, inside: Link, waiting: Vec<Link>) -> Vec<String> {
    worker.let_all_go();
    for mut client in [inside].into_iter().chain(waiting) {
        assert_eq!(client.receive_response().status(), 200);
    }
    worker.targets().split_off(1)
}

#[test]
fn the_more_important_is_served_first() {
    let (worker, spillgate, inside) = busy(|config| config.pool("class_header = \"X-Class\""));
    let waiting = queue_up(
        &spillgate,
        &[
            ("/3", "x-class: bulk"),
            ("/1", ""),
            ("/odd", "x-class: urgent"),
            ("/0", "x-class: 0"),
            ("/2", "X-CLASS: Degraded"),
        ],
    );
    let pool = spillgate.pool();
    assert_eq!(pool["waiting_by_class"]["normal"], 2, "{pool}");
    assert_eq!(pool["waiting_by_class"]["bulk"], 1, "{pool}");
    let order = serve_all(&worker, inside, waiting);
    assert_eq!(order, ["/0", "/1", "/odd", "/2", "/3"]);
    assert_eq!(spillgate.record("/3")["class"], "bulk");
    assert_eq!(spillgate.record("/odd")["class"], "normal");
    let metrics = spillgate.metrics();
    let of = |name, class| metrics.sum(name, &[("pool", "app"), ("class", class)]);
    assert_eq!(of("spillgate_class_arrivals_total", "normal"), 3);
    assert_eq!(of("spillgate_class_successes_total", "critical"), 1);
}

#[test]
fn a_class_comes_from_the_route_or_the_method_too() {
    let (worker, spillgate, inside) = busy(|config| {
        config.pool("class = \"degraded\"").pool("class_methods = { DELETE = \"bulk\" }").section(
            "[[route]]\npath = \"/pay\"\npool = \"app\"\nclass = \"critical\"\n\
             [[route]]\npath = \"/\"\npool = \"app\"\n",
        )
    });
    let mut first = queue_up(&spillgate, &[("/page", "")]);
    let mut deleting = spillgate.connect();
    deleting.send("DELETE /page/1 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    spillgate.wait_queue(2);
    let mut paying = spillgate.connect();
    paying.send(get_with("/pay/now", ""));
    spillgate.wait_queue(3);
    first.extend([deleting, paying]);
    let order = serve_all(&worker, inside, first);
    assert_eq!(order, ["/pay/now", "/page", "/page/1"]);
}

/// A pool that knows its callers, with a route that ranks two of them and one that ranks none.
fn with_callers(config: Config) -> Config {
    config
        .pool("class_header = \"x-class\"")
        .pool("caller_header = \"X-Caller\"")
        .pool("class_methods = { DELETE = \"bulk\" }")
        .pool("class_callers = { batch = \"bulk\", checkout = \"degraded\" }")
        .section(
            "[[route]]\npath = \"/pay\"\npool = \"app\"\nclass = \"degraded\"\n\
             [route.class_callers]\ncheckout = \"critical\"\nreports = { POST = \"bulk\" }\n\
             [[route]]\npath = \"/\"\npool = \"app\"\n",
        )
}

#[test]
fn a_class_comes_from_the_route_and_the_caller() {
    let (_echo, spillgate) = Echo::behind(with_callers);
    for (method, target, fields, class) in [
        ("GET", "/pay", "x-caller: checkout", "critical"),
        ("GET", "/other", "x-caller: checkout", "degraded"),
        ("GET", "/pay/reports", "x-caller: reports", "degraded"),
        ("POST", "/pay/reports", "x-caller: reports", "bulk"),
        ("GET", "/pay/batch", "x-caller: batch", "bulk"),
        ("GET", "/batch", "x-caller: batch", "bulk"),
        ("GET", "/pay/unknown", "x-caller: nobody", "degraded"),
        ("GET", "/pay/without", "", "degraded"),
        ("GET", "/unknown", "x-caller: nobody", "normal"),
        ("DELETE", "/unknown", "x-caller: nobody", "bulk"),
        ("DELETE", "/checkout", "x-caller: checkout", "degraded"),
        ("GET", "/pay/said", "x-caller: batch\r\nx-class: normal", "normal"),
    ] {
        let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        assert_eq!(spillgate.ask(request).status(), 200);
        let wanted = |record: &Value| record["target"] == target && record["method"] == method;
        let record = spillgate.record_where(target, wanted);
        assert_eq!(record["class"], class, "{method} {target} {fields}");
        let caller = fields.strip_prefix("x-caller: ").and_then(|rest| rest.lines().next());
        assert_eq!(record["caller"].as_str(), caller, "{method} {target}");
    }
}

#[test]
fn the_more_important_caller_of_a_route_is_served_first() {
    let (worker, spillgate, inside) = busy(with_callers);
    let waiting = queue_up(
        &spillgate,
        &[
            ("/batch", "x-caller: batch"),
            ("/pay/anyone", ""),
            ("/anyone", ""),
            ("/pay/checkout", "x-caller: checkout"),
        ],
    );
    let order = serve_all(&worker, inside, waiting);
    assert_eq!(order, ["/pay/checkout", "/anyone", "/pay/anyone", "/batch"]);
}

#[test]
fn a_stranger_is_no_caller() {
    let stranger = |config: Config| with_callers(config).top("trusted_from = []");
    let (echo, spillgate) = Echo::behind(stranger);
    assert_eq!(spillgate.ask(get_with("/pay", "x-caller: checkout")).status(), 200);
    let record = spillgate.record("/pay");
    assert_eq!((&record["class"], &record["caller"]), (&"degraded".into(), &Value::Null));
    assert_eq!(echo.seen()[0].get("x-caller"), None);
}

#[test]
fn a_full_queue_makes_room_for_the_more_important() {
    let (worker, spillgate, inside) =
        busy(|config| config.pool("class_header = \"x-class\"").pool("queue_len_max = 1"));
    let mut bulk = queue_up(&spillgate, &[("/bulk", "x-class: 3")]);
    let mut critical = spillgate.connect();
    critical.send(get_with("/critical", "x-class: 0"));
    let response = bulk.remove(0).receive_response();
    assert_eq!(response.status(), 503);
    assert!(response.get("proxy-status").is_some_and(|said| said.contains("\"displaced\"")));
    assert!(response.get("retry-after").is_some());
    let late = spillgate.ask(get_with("/late", "x-class: 3"));
    assert!(late.get("proxy-status").is_some_and(|said| said.contains("\"queue_full\"")));
    assert_eq!(serve_all(&worker, inside, vec![critical]), ["/critical"]);
    let shed = spillgate.metrics().sum("spillgate_class_shed_total", &[("class", "bulk")]);
    assert_eq!(shed, 2);
}

#[test]
fn who_is_not_trusted_steers_nothing() {
    let (worker, spillgate, inside) = busy(|config| {
        config
            .top("trusted_from = [\"10.0.0.0/8\"]")
            .pool("class_header = \"x-class\"")
            .pool("tenant_header = \"x-tenant\"")
            .pool("deadline_header = \"x-deadline\"")
    });
    let steering = "x-class: 0\nx-tenant: t\nx-deadline: 0ms\ngrpc-timeout: 0m\nx-other: stays";
    let waiting = queue_up(&spillgate, &[("/first", ""), ("/second", steering)]);
    assert_eq!(serve_all(&worker, inside, waiting), ["/first", "/second"]);
    let seen = worker.seen();
    let second = seen.iter().find(|seen| seen.head.target() == "/second").expect("it was served");
    for name in ["x-class", "x-tenant", "x-deadline"] {
        assert_eq!(second.head.get(name), None, "{name}");
    }
    assert_eq!(second.head.get("x-other"), Some("stays"));
}

#[test]
fn the_tenant_with_most_in_the_queue_makes_room() {
    let (worker, spillgate, inside) =
        busy(|config| config.pool("tenant_header = \"x-tenant\"").pool("queue_len_max = 3"));
    let many = [("/a1", "x-tenant: a"), ("/a2", "x-tenant: a"), ("/a3", "x-tenant: a")];
    let mut waiting = queue_up(&spillgate, &many);
    let mut small = spillgate.connect();
    small.send(get_with("/b1", "x-tenant: b"));
    let response = waiting.remove(2).receive_response();
    assert!(response.get("proxy-status").is_some_and(|said| said.contains("\"displaced\"")));
    let more = spillgate.ask(get_with("/a4", "x-tenant: a"));
    assert!(more.get("proxy-status").is_some_and(|said| said.contains("\"queue_full\"")));
    waiting.push(small);
    let mut served = serve_all(&worker, inside, waiting);
    served.sort_unstable();
    assert_eq!(served, ["/a1", "/a2", "/b1"]);
}

#[test]
fn a_deadline_that_the_client_says_is_kept() {
    let (worker, spillgate, inside) = busy(|config| config.pool("deadline_header = \"x-until\""));
    for (target, field) in [("/grpc", "grpc-timeout: 20m"), ("/own", "x-until: 20ms")] {
        let response = spillgate.ask(get_with(target, field));
        assert_eq!(response.status(), 503);
        let said = response.get("proxy-status").expect("the reason is told");
        assert!(said.contains("\"deadline_unmeetable\""), "{said}");
    }
    assert_eq!(serve_all(&worker, inside, Vec::new()), [] as [&str; 0]);
}
