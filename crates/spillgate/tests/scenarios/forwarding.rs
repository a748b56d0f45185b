//! What a worker sees of a request: written anew, with one framing, without what concerns the
//! client's connection or what a client may not say.

use crate::harness::{Echo, Message, Worker, get};

/// What a worker sees of this request, which an echo answers.
fn seen_of(request: impl AsRef<[u8]>) -> Message {
    let (echo, spillgate) = Echo::behind(|config| config);
    assert_eq!(spillgate.ask(request).status(), 200);
    echo.seen().remove(0)
}

#[test]
fn a_body_gets_one_framing_and_none_gets_none() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let cases: [(&str, Option<&str>, Option<&str>, &str); 9] = [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None, None, ""),
        ("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", None, None, ""),
        ("OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n", None, None, ""),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", Some("0"), None, ""),
        ("DELETE / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", None, None, ""),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 03\r\n\r\nabc", Some("3"), None, "abc"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", Some("1"), None, "x"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n\
             2;ext=1\r\nab\r\n001\r\nc\r\n0\r\n\r\n",
            Some("3"),
            None,
            "abc",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
            None,
            Some("chunked"),
            "abc",
        ),
    ];
    for (index, (request, length, coding, body)) in cases.into_iter().enumerate() {
        assert_eq!(spillgate.ask(request).status(), 200, "{request}");
        let seen = &echo.seen()[index];
        assert_eq!(seen.get("content-length"), length, "{request}");
        assert_eq!(seen.get("transfer-encoding"), coding, "{request}");
        assert_eq!(seen.text(), body, "{request}");
    }
}

#[test]
fn nothing_follows_a_request_on_its_connection() {
    let (worker, spillgate) = Worker::behind(|config| config.top("shards = 1"));
    let mut client = spillgate.connect();
    // An empty chunked body is where a stray last chunk would come from.
    client.send("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    let mut link = worker.accept();
    assert_eq!(link.receive_request().head.target(), "/1");
    link.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.receive_response().status(), 204);
    link.expect_silence();
    client
        .send("POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n");
    let request = link.receive_request();
    assert_eq!((request.head.target(), request.trailers.len()), ("/2", 1));
    link.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.receive_response().status(), 204);
    client.send(get("/3"));
    assert_eq!(link.receive_request().head.line, "GET /3 HTTP/1.1");
}

#[test]
fn fields_of_the_clients_connection_stay_behind() {
    let seen = seen_of(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Auth, keep-alive\r\nX-Auth: secret\r\n\
         Connection: x-other\r\nX-Other: too\r\nKeep-Alive: timeout=9\r\n\
         Proxy-Connection: close\r\nTE: trailers\r\nUpgrade: h2c\r\n\
         Proxy-Authorization: Basic x\r\nExpect: 100-continue\r\n\
         Accept: */*\r\nX-Kept: 1\r\nX-Kept: 2\r\n\r\n",
    );
    let stay = [
        "connection",
        "x-auth",
        "x-other",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
        "proxy-authorization",
        "expect",
    ];
    for name in stay {
        assert_eq!(seen.get(name), None, "{name}");
    }
    assert_eq!(seen.get("accept"), Some("*/*"));
    assert_eq!(seen.head.all("x-kept"), ["1", "2"]);
}

#[test]
fn fields_of_the_workers_connection_stay_behind() {
    let (worker, spillgate) = Worker::behind(|config| config);
    let mut client = spillgate.connect();
    client.send(get("/"));
    let mut link = worker.accept();
    link.receive_request();
    link.send(
        "HTTP/1.1 200 Fine\r\nConnection: close, X-Inner\r\nX-Inner: 1\r\nKeep-Alive: timeout=5\r\n\
         Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Accel-Buffering: yes\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let response = client.receive_response();
    assert_eq!(response.head.line, "HTTP/1.1 200 Fine");
    for name in ["connection", "x-inner", "keep-alive", "x-accel-buffering"] {
        assert_eq!(response.get(name), None, "{name}");
    }
    assert_eq!(response.head.all("set-cookie"), ["a=1", "b=2"]);
    // The connection to the worker ends; the client's goes on.
    client.send(get("/next"));
    assert_eq!(worker.accept().receive_request().head.target(), "/next");
}

#[test]
fn the_authority_of_the_target_wins() {
    let (echo, spillgate) = Echo::behind(|config| config);
    let cases = [
        ("GET http://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x?y", "b.example:81"),
        ("GET HTTP://b.example HTTP/1.1\r\nHost: a\r\n\r\n", "GET /", "b.example"),
        ("GET http://b.example?q HTTP/1.1\r\nHost: b.example\r\n\r\n", "GET /?q", "b.example"),
        ("OPTIONS http://b.example HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS *", "b.example"),
        ("OPTIONS * HTTP/1.1\r\nHost: a:80\r\n\r\n", "OPTIONS *", "a:80"),
        ("GET http://b.example/ HTTP/1.0\r\n\r\n", "GET /", "b.example"),
        ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET /", "[::1]:80"),
    ];
    for (index, (request, line, host)) in cases.into_iter().enumerate() {
        assert_eq!(spillgate.ask(request).status(), 200, "{request}");
        let seen = &echo.seen()[index];
        assert_eq!(seen.head.line, format!("{line} HTTP/1.1"), "{request}");
        assert_eq!(seen.get("host"), Some(host), "{request}");
    }
}

#[test]
fn any_method_that_is_a_token_passes() {
    let (echo, spillgate) = Echo::behind(|config| config);
    for method in ["PATCH", "PROPFIND", "x", "M-SEARCH", "get"] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(spillgate.ask(request).status(), 200);
        assert_eq!(echo.seen().last().expect("it was just seen").head.method(), method);
    }
}

/// A request that says everything about where it came from.
const TELLING: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.7\r\n\
    X-Forwarded-For: 192.0.2.8, 192.0.2.9\r\nX-Forwarded-Proto: https\r\n\
    X-Forwarded-Host: outer.example\r\nX-Forwarded-Port: 443\r\nX-Real-IP: 192.0.2.7\r\n\
    Forwarded: for=192.0.2.7\r\nX-Request-Id: theirs-1\r\n\
    traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
    tracestate: a=b\r\n\r\n";

#[test]
fn a_stranger_tells_nothing_of_others() {
    let seen = seen_of(TELLING);
    assert_eq!(seen.get("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen.get("x-forwarded-proto"), Some("http"));
    assert_eq!(seen.get("x-forwarded-host"), Some("a.example"));
    assert_eq!(seen.get("x-forwarded-port"), None);
    assert_eq!(seen.get("x-real-ip"), None);
    assert_eq!(seen.get("forwarded"), Some("for=127.0.0.1;host=a.example;proto=http"));
    let id = seen.get("x-request-id").expect("each request has an id");
    assert!(id.len() == 32 && id != "theirs-1", "{id}");
    let trace = seen.get("traceparent").expect("each request has a trace");
    assert!(trace.len() == 55 && !trace.contains("0af7651916cd43dd8448eb211c80319c"), "{trace}");
    assert_eq!(seen.get("tracestate"), None, "it belongs to a trace that was not believed");
}

#[test]
fn a_trusted_client_is_believed() {
    let (echo, spillgate) = Echo::behind(|config| config.top("trusted_from = [\"127.0.0.1\"]"));
    assert_eq!(spillgate.ask(TELLING).status(), 200);
    let seen = echo.seen().remove(0);
    let all = "192.0.2.7, 192.0.2.8, 192.0.2.9, 127.0.0.1";
    assert_eq!(seen.get("x-forwarded-for"), Some(all));
    assert_eq!(seen.get("x-forwarded-proto"), Some("https"));
    assert_eq!(seen.get("x-forwarded-host"), Some("outer.example"));
    assert_eq!(seen.get("x-forwarded-port"), Some("443"));
    assert_eq!(seen.get("x-real-ip"), Some("192.0.2.7"));
    let forwarded = "for=192.0.2.7, for=127.0.0.1;host=a.example;proto=http";
    assert_eq!(seen.get("forwarded"), Some(forwarded));
    assert_eq!(seen.get("x-request-id"), Some("theirs-1"));
    let trace = seen.get("traceparent").expect("each request has a trace");
    assert!(trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{trace}");
    assert!(trace.ends_with("-01") && !trace.contains("b7ad6b7169203331"), "{trace}");
    assert_eq!(seen.get("tracestate"), Some("a=b"));
    let record = spillgate.record("/");
    assert_eq!((&record["id"], &record["client"]), (&"theirs-1".into(), &"192.0.2.9".into()));
}

#[test]
fn the_access_record_names_the_nearest_address_that_is_not_trusted() {
    let (_echo, spillgate) =
        Echo::behind(|config| config.top("trusted_from = [\"127.0.0.1\", \"192.0.2.0/24\"]"));
    for (target, hops, expected) in [
        ("/balancers", "203.0.113.1, 203.0.113.2, 192.0.2.1", "203.0.113.2"),
        ("/ours", "192.0.2.1", "192.0.2.1"),
        ("/unknown", "203.0.113.1, unknown, 192.0.2.1", "192.0.2.1"),
        ("/none", "", "127.0.0.1"),
    ] {
        let fields = format!("X-Forwarded-For: {hops}\r\n");
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(spillgate.ask(request).status(), 200);
        assert_eq!(spillgate.record(target)["client"], expected, "{hops}");
    }
}

#[test]
fn underscores_do_not_smuggle_a_forwarding_field() {
    let seen = seen_of(
        "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 192.0.2.7\r\nX-Forwarded_Proto: https\r\n\
         X_Request_Id: theirs\r\n\r\n",
    );
    for name in ["x_forwarded_for", "x-forwarded_proto", "x_request_id"] {
        assert_eq!(seen.get(name), None, "{name}");
    }
}

/// What proxies say in fields that we do not write ourselves.
const PROXIES_SAY: [&str; 12] = [
    "X-Forwarded-Ssl",
    "X-Forwarded-Scheme",
    "X-Forwarded-Prefix",
    "x_forwarded_server",
    "Client-IP",
    "True-Client-IP",
    "X-Client-Ip",
    "X-Cluster-Client-IP",
    "X-Original-URL",
    "X_Rewrite_URL",
    "Front-End-Https",
    "X-Url-Scheme",
];

#[test]
fn what_only_a_proxy_may_say_is_taken_from_a_trusted_one() {
    let fields = PROXIES_SAY.map(|name| format!("{name}: theirs\r\n")).concat();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}X-Forward: 1\r\n\r\n");
    let (echo, spillgate) = Echo::behind(|config| config.top("trusted_from = [\"127.0.0.1\"]"));
    assert_eq!(spillgate.ask(&request).status(), 200);
    let (trusted, stranger) = (echo.seen().remove(0), seen_of(&request));
    for name in PROXIES_SAY {
        assert_eq!(trusted.get(name), Some("theirs"), "{name}");
        assert_eq!(stranger.get(name), None, "{name}");
    }
    assert_eq!(stranger.get("x-forward"), Some("1"), "it is nobody's");
}

#[test]
fn an_id_that_would_spoil_a_log_is_replaced() {
    let (echo, spillgate) = Echo::behind(|config| config.top("trusted_from = [\"127.0.0.1\"]"));
    for id in ["", "a b", &"x".repeat(65)] {
        spillgate.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id}\r\n\r\n"));
        let seen = echo.seen();
        let sent = seen.last().and_then(|seen| seen.get("x-request-id")).map(str::to_owned);
        assert_eq!(sent.map(|sent| sent.len()), Some(32), "{id:?}");
    }
}
