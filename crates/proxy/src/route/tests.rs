//! Routes against a plain look at all of them, and against workers that read paths in their own
//! ways: whatever the spelling, no worker gets a path that it reads as one that leads elsewhere.

use spillgate_core::rng::Rng;

use super::*;
use crate::settings::CallerClass;

fn route(host: Option<&str>, path: PathMatch, pool: usize) -> RouteSettings {
    RouteSettings {
        host: host.map(String::from),
        path,
        class: None,
        class_callers: CallerClasses::default(),
        destination: Destination::Pool(pool),
    }
}

fn prefix(path: &str) -> PathMatch {
    PathMatch::Prefix(path.into())
}

#[test]
fn the_most_specific_route_wins() {
    let router = Router::new(&[
        route(None, prefix("/"), 0),
        route(None, prefix("/api"), 1),
        route(None, PathMatch::Exact("/api".into()), 2),
        route(Some("shop.example"), prefix("/"), 3),
        route(None, prefix("/static/"), 4),
    ]);
    for (host, path, pool) in [
        ("a", "/", Some(0)),
        ("a", "/api/x", Some(1)),
        ("a", "/api", Some(2)),
        ("a", "/apix", Some(0)),
        ("SHOP.example:8080", "/api", Some(3)),
        ("shop.example.", "/api", Some(3)),
        ("shop.example.:8080", "/api", Some(3)),
        ("[::1]:80", "/static/x", Some(4)),
        ("[::1]", "/static", Some(0)),
        ("a", "*", Some(0)),
    ] {
        let found = router.find(host.as_bytes(), path.as_bytes());
        assert_eq!(found.ok().and_then(pool_of), pool, "{host} {path}");
    }
}

fn reply(path: PathMatch) -> RouteSettings {
    let reply = ReplySettings { status: 403, body: String::new(), content_type: String::new() };
    RouteSettings { destination: Destination::Reply(reply), ..route(None, path, 0) }
}

#[test]
fn routes_that_rank_a_caller_differently_lead_to_different_places() {
    let mut ranks = route(None, prefix("/a"), 0);
    ranks.class_callers = CallerClasses::new(vec![("batch".into(), CallerClass::Any(Class::Bulk))]);
    let plain = route(None, prefix("/"), 0);
    let alike = Router::new(&[plain.clone(), route(None, prefix("/a"), 0)]);
    assert!(alike.find(b"a", b"/x%2F..%2Fa").is_ok());
    let forks = Router::new(&[plain, ranks]);
    assert_eq!(forks.find(b"a", b"/x%2F..%2Fa").err(), Some(Unrouted::Ambiguous));
}

fn pool_of(routed: Routed<'_>) -> Option<usize> {
    match routed.to {
        To::Pool(index) => Some(index),
        To::Reply(_) => None,
    }
}

/// Where a request leads, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    Pool(usize),
    Reply,
    Nowhere,
    Refused,
}

fn lead(router: &Router, host: &str, path: &str) -> Lead {
    match router.find(host.as_bytes(), path.as_bytes()) {
        Ok(routed) => pool_of(routed).map_or(Lead::Reply, Lead::Pool),
        Err(Unrouted::NoRoute) => Lead::Nowhere,
        Err(Unrouted::Ambiguous) => Lead::Refused,
    }
}

/// What [`Router`] says of a plain path, said plainly: the best of all that match.
fn plainly(routes: &[RouteSettings], host: &str, path: &str) -> Lead {
    let matching = routes.iter().filter(|route| {
        let host_fits = route.host.as_deref().is_none_or(|wanted| wanted == host);
        host_fits
            && match &route.path {
                PathMatch::Exact(wanted) => wanted == path,
                PathMatch::Prefix(wanted) if path == "*" => wanted == "/",
                PathMatch::Prefix(wanted) => starts_at_border(wanted.as_bytes(), path.as_bytes()),
            }
    });
    let rank = |route: &&RouteSettings| match &route.path {
        PathMatch::Exact(_) => (route.host.is_some(), true, 0),
        PathMatch::Prefix(wanted) => (route.host.is_some(), false, wanted.len()),
    };
    // Of equal ones `max_by_key` takes the last, and the first wins.
    match matching.rev().max_by_key(rank).map(|route| &route.destination) {
        Some(Destination::Pool(pool)) => Lead::Pool(*pool),
        Some(Destination::Reply(_)) => Lead::Reply,
        None => Lead::Nowhere,
    }
}

/// One step of reading a path.
type Step = fn(String) -> String;

/// Workers as they are known, each as the steps in which it reads a path.
const WORKERS: [&[Step]; 10] = [
    // RFC 3986 by the letter, with slashes made one in the end.
    &[unescape, follow, merge],
    &[follow, unescape, merge],
    // nginx: everything is decoded, then slashes are made one, then dots are followed.
    &[unescape, unescape_slashes, merge, follow],
    // WSGI and its like: everything is decoded, no dots are followed.
    &[unescape, unescape_slashes, merge],
    &[unescape, unescape_slashes, backslashes, follow, merge],
    // Servlets: parameters go first, or last.
    &[cut_params, unescape, merge, follow],
    &[unescape, unescape_slashes, cut_params, merge, follow],
    &[cut_params, unescape, unescape_slashes, merge],
    // A URL parser that takes what follows two slashes for a host; then files.
    &[cut_host, unescape, follow, merge],
    &[cut_host, unescape, follow, unescape_slashes, follow, merge],
];

fn unescape(path: String) -> String {
    ["%61a", "%41A", "%2e.", "%2E.", "%3b;", "%3B;"].iter().fold(path, |path, pair| {
        let (code, plain) = pair.split_at(3);
        path.replace(code, plain)
    })
}

fn unescape_slashes(path: String) -> String {
    path.replace("%2f", "/").replace("%2F", "/").replace("%5c", "\\").replace("%5C", "\\")
}

fn backslashes(path: String) -> String {
    path.replace('\\', "/")
}

fn merge(path: String) -> String {
    match path.contains("//") {
        true => merge(path.replace("//", "/")),
        false => path,
    }
}

fn cut_params(path: String) -> String {
    let names: Vec<&str> = path.split('/').map(|part| part.split(';').next().unwrap()).collect();
    names.join("/")
}

fn cut_host(path: String) -> String {
    match path.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("/".into(), |at| rest[at..].to_owned()),
        None => path,
    }
}

fn follow(path: String) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    for (at, part) in parts.iter().enumerate() {
        match *part {
            "." => {}
            ".." => _ = kept.pop(),
            part => kept.push(part),
        }
        if at + 1 == parts.len() && matches!(*part, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// What a path may be made of.
const PLAIN: [&str; 6] = ["/", "a", "b", "/a", "/ab", "-"];
const ODD: [&str; 18] = [
    "/", "a", "b", "/a", "/ab", "-", "%61", "%2e", "%2E%2e", ".", "/..", "//", "%2f", "%2F", "%5c",
    ";", "%3b", "..",
];

fn path_of(pieces: &[&str], below: &mut dyn FnMut(u64) -> u64) -> String {
    let mut path = String::from("/");
    for _ in 0..below(7) {
        path += pieces[below(pieces.len() as u64) as usize];
    }
    path
}

const HOSTS: [Option<&str>; 4] = [None, None, Some("a"), Some("b.example")];

/// Some routes whose paths are plain.
fn some_routes(below: &mut dyn FnMut(u64) -> u64) -> Vec<RouteSettings> {
    let made = (0..below(40) as usize).map(|number| {
        let text = merge(path_of(&PLAIN, below));
        let is_exact = below(3) == 0;
        let path = if is_exact { PathMatch::Exact(text) } else { PathMatch::Prefix(text) };
        match below(4) {
            0 => reply(path),
            _ => route(HOSTS[below(4) as usize], path, number % 4),
        }
    });
    made.collect()
}

/// Call `check` with so many routers, each with its routes, and what draws more numbers.
fn for_routers(
    seed: u64,
    count: usize,
    mut check: impl FnMut(&[RouteSettings], &Router, &mut dyn FnMut(u64) -> u64),
) {
    let mut rng = Rng::new(seed);
    let mut below = |count: u64| rng.below(count);
    for _ in 0..count {
        let routes = some_routes(&mut below);
        check(&routes, &Router::new(&routes), &mut below);
    }
}

#[test]
fn the_search_finds_what_a_look_at_every_route_finds() {
    for_routers(1, 300, |routes, router, below| {
        for _ in 0..50 {
            let host = HOSTS[below(4) as usize].unwrap_or("other");
            let path = if below(20) == 0 { "*".to_owned() } else { path_of(&PLAIN, below) };
            let wanted = plainly(routes, host, &merge(path.clone()));
            let found = lead(router, &host.to_uppercase(), &path);
            let may_be_refused = path.starts_with("//") && matches!(wanted, Lead::Pool(_));
            if !may_be_refused || found != Lead::Refused {
                assert_eq!(found, wanted, "{host} {path} of {routes:?}");
            }
        }
    });
}

#[test]
fn no_worker_reads_a_path_that_leads_elsewhere() {
    let mut passed = 0;
    for_routers(2, 600, |routes, router, below| {
        for _ in 0..100 {
            let host = HOSTS[below(4) as usize].unwrap_or("other");
            let path = path_of(&ODD, below);
            let found = lead(router, host, &path);
            if !matches!(found, Lead::Pool(_)) || !router.forks {
                continue;
            }
            passed += 1;
            for (worker, steps) in WORKERS.iter().enumerate() {
                let read = steps.iter().fold(path.clone(), |path, step| step(path));
                let wanted = plainly(routes, host, &read);
                assert_eq!(found, wanted, "{worker} reads {path} as {read} of {routes:?}");
            }
        }
    });
    assert!(passed > 5000, "{passed}");
}

/// Spellings of a path that nobody reads in another way.
fn respelled(path: &str, below: &mut dyn FnMut(u64) -> u64) -> String {
    let mut spelled = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' if !spelled.is_empty() && below(4) == 0 => spelled += "//",
            b'/' => spelled.push('/'),
            _ if below(4) == 0 => spelled += &format!("%{byte:02x}"),
            _ if below(4) == 0 => spelled += &format!("%{byte:02X}"),
            _ => spelled.push(char::from(byte)),
        }
    }
    spelled
}

/// Spellings of a path that nobody reads in another way, and some that a worker may.
fn hidden(path: &str, below: &mut dyn FnMut(u64) -> u64) -> String {
    let spelled = respelled(path, below);
    match below(6) {
        0 => format!("/.{spelled}"),
        1 => format!("/x/..{spelled}"),
        2 => format!("/%2E%2e{spelled}"),
        3 => format!("/{spelled}"),
        4 => format!("/b/%2e{}", &spelled.replacen('/', "/../", 1)),
        _ => spelled,
    }
}

#[test]
fn every_spelling_of_a_path_leads_where_the_path_does() {
    for_routers(3, 300, |routes, router, below| {
        for _ in 0..50 {
            let host = HOSTS[below(4) as usize].unwrap_or("other");
            let path = merge(path_of(&PLAIN, below));
            let wanted = plainly(routes, host, &path);
            let spelled = respelled(&path, below);
            assert_eq!(lead(router, host, &spelled), wanted, "{spelled} of {routes:?}");
            let hidden = hidden(&path, below);
            let found = lead(router, host, &hidden);
            if found != Lead::Refused || !matches!(wanted, Lead::Pool(_)) {
                assert_eq!(found, wanted, "{hidden} of {routes:?}");
            }
        }
    });
}

#[test]
fn a_reply_is_not_walked_around() {
    let deny = || reply(prefix("/deny"));
    let router = Router::new(&[route(None, prefix("/"), 0), deny()]);
    for path in ["/%64eny", "//deny", "/x/../deny", "/deny/.", "/%2e/deny", "/DENY/../deny/x"] {
        assert_eq!(lead(&router, "a", path), Lead::Reply, "{path}");
    }
    for path in [
        "/deny%2f",
        "/%2Fdeny",
        "/deny;x",
        "/%5cdeny",
        "//a/deny",
        "/deny/../x",
        "/x%2F..%2fdeny",
        "/deny%00",
        "/..;/deny",
        "/x/..%3B/deny",
    ] {
        assert_eq!(lead(&router, "a", path), Lead::Refused, "{path}");
    }
    for path in ["/x%2Fy", "/x;y", "/a//b", "//x", "/%C3%A4", "/100%", "/@scope%2fname"] {
        assert_eq!(lead(&router, "a", path), Lead::Pool(0), "{path}");
    }
    let only = Router::new(&[route(None, prefix("/"), 0), route(Some("b"), prefix("/x"), 0)]);
    for path in ["/deny/../x", "//a/b", "/a%00", "/..;/"] {
        assert_eq!(lead(&only, "b", path), Lead::Pool(0), "{path}");
    }
}

#[test]
fn without_a_match_there_is_no_route() {
    let router = Router::new(&[route(None, prefix("/api"), 0)]);
    assert_eq!(lead(&router, "a", "/"), Lead::Nowhere);
    assert_eq!(lead(&router, "a", "/x/../y"), Lead::Nowhere);
}
