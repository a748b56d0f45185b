//! The admin side asked over real connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;

use spillgate_runtime::drive::{Control, Task};
use spillgate_runtime::http::settings::Endpoint;

use super::status::{BudgetStatus, EndStatus};
use super::*;

fn status() -> Status {
    Status {
        version: "1.2.3".to_owned(),
        uptime_s: 4.5,
        listeners: Vec::new(),
        shards: Vec::new(),
        budget: BudgetStatus {
            memory_used: 1,
            memory_max: 2,
            spill_used: 0,
            spill_max: 0,
            sockets: 3,
            waiting: 0,
        },
        pools: Vec::new(),
        poolless: EndStatus::default(),
    }
}

struct Served {
    control: Control,
    endpoint: Endpoint,
    ready: Arc<Mutex<Ready>>,
    _task: Task<io::Result<()>>,
}

fn start(address: &Endpoint) -> Served {
    let control = Control::start().expect("it starts");
    let listener = control.block_on(AdminListener::bind(address)).expect("it listens");
    let endpoint = listener.address().clone();
    let ready = Arc::new(Mutex::new(Ready::Starting));
    let shown = Arc::clone(&ready);
    let source = Source {
        status: Box::new(|| Box::pin(async { status() })),
        metrics: Box::new(Vec::new),
        ready: Box::new(move || *shown.lock().expect("no test panics while it holds this")),
    };
    let task = control.spawn(serve(listener, Arc::new(source)));
    Served { control, endpoint, ready, _task: task }
}

fn local() -> Served {
    start(&Endpoint::Tcp("127.0.0.1:0".parse().expect("an address")))
}

impl Served {
    /// The whole answer to one request, with `host` as its `Host`.
    fn ask(&self, method: &str, path: &str, host: &str) -> String {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        match &self.endpoint {
            Endpoint::Tcp(address) => exchange(TcpStream::connect(address), &request),
            Endpoint::Unix(path) => exchange(UnixStream::connect(path), &request),
        }
    }
}

fn exchange<S: Read + Write>(stream: io::Result<S>, request: &str) -> String {
    let mut stream = stream.expect("it accepts");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[track_caller]
fn expect(answer: &str, status: u16, content: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(content), "{answer}");
    assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
    assert!(answer.contains("cache-control: no-store"), "{answer}");
}

#[test]
fn each_path_has_its_answer() {
    let served = local();
    expect(&served.ask("GET", "/", "localhost"), 200, "<title>Spillgate</title>");
    expect(&served.ask("GET", "/page.js", "localhost"), 200, "text/javascript");
    expect(&served.ask("GET", "/page.css", "localhost"), 200, "text/css");
    expect(&served.ask("GET", "/metrics", "localhost"), 200, "# EOF\n");
    expect(&served.ask("GET", "/elsewhere", "localhost"), 404, "/status, /metrics and /ready\n");
    let answer = served.ask("GET", "/status", "127.0.0.1:1");
    expect(&answer, 200, "content-type: application/json");
    let (_, body) = answer.split_once("\r\n\r\n").expect("it has a body");
    assert_eq!(serde_json::from_str::<Status>(body).expect("it is a status"), status());
    let head = served.ask("HEAD", "/", "localhost");
    expect(&head, 200, "text/html");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn it_only_shows_and_only_under_its_own_name() {
    let served = local();
    expect(&served.ask("POST", "/status", "localhost"), 405, "allow: GET, HEAD");
    expect(&served.ask("DELETE", "/", "localhost"), 405, "");
    expect(&served.ask("GET", "/status", "rebound.example"), 421, "not mine");
    expect(&served.ask("GET", "/ready", "balancer.example"), 503, "starting");
}

#[test]
fn a_client_that_sends_nothing_more_is_answered_first() {
    let served = local();
    let Endpoint::Tcp(address) = &served.endpoint else { panic!("it is a TCP address") };
    for path in ["/status", "/page.js", "/elsewhere"] {
        let mut stream = TcpStream::connect(address).expect("it accepts");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("half closed");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered, then closed");
        let status = if path == "/elsewhere" { 404 } else { 200 };
        expect(&answer, status, "\r\n\r\n");
    }
}

#[test]
fn readiness_has_three_words() {
    let served = local();
    for (ready, code, word) in [
        (Ready::Starting, 503, "starting\n"),
        (Ready::Ready, 200, "ready\n"),
        (Ready::Stopping, 503, "stopping\n"),
    ] {
        *served.ready.lock().expect("no test panics while it holds this") = ready;
        expect(&served.ask("GET", "/ready", "localhost"), code, word);
    }
}

#[test]
fn a_unix_socket_serves_any_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: &Path = &folder.path().join("admin.sock");
    let served = start(&Endpoint::Unix(path.to_owned()));
    expect(&served.ask("GET", "/status", "anything.example"), 200, "1.2.3");
    served.control.stop(Duration::from_secs(1));
}

#[test]
fn the_page_asks_nobody_else() {
    for text in [PAGE, PAGE_SCRIPT, PAGE_STYLE] {
        let text = std::str::from_utf8(text).expect("it is text");
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!foreign.contains("://"), "no address but our own");
        assert!(!text.contains("innerHTML"), "text from outside never becomes markup");
    }
}
