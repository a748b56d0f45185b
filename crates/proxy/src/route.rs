//! From host and path to a destination.
//!
//! The most specific route wins: one with a host before one without, exact before prefix, a longer
//! prefix before a shorter one. Matching works on the bytes of the request and allocates nothing.

use crate::settings::{Destination, PathMatch, ReplySettings, RouteSettings};

/// The routes, ready to be asked.
#[derive(Debug)]
pub struct Router {
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    host: Option<String>,
    path: PathMatch,
    destination: Destination,
    name: String,
}

/// Where a request leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'r> {
    /// The route as the log names it: its path.
    pub(crate) name: &'r str,
    /// Where it leads.
    pub(crate) to: To<'r>,
}

/// The destination of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'r> {
    /// The pool with this index.
    Pool(usize),
    /// A reply from the file.
    Reply(&'r ReplySettings),
}

impl Router {
    /// Put the most specific first.
    pub fn new(routes: &[RouteSettings]) -> Router {
        let mut routes: Vec<Route> = routes
            .iter()
            .map(|route| Route {
                host: route.host.clone(),
                path: route.path.clone(),
                destination: route.destination.clone(),
                name: match &route.path {
                    PathMatch::Exact(path) | PathMatch::Prefix(path) => path.clone(),
                },
            })
            .collect();
        // A stable sort: of two equal routes the first of the file wins.
        routes.sort_by_key(|route| {
            let (prefix, length) = match &route.path {
                PathMatch::Exact(path) => (false, path.len()),
                PathMatch::Prefix(path) => (true, path.len()),
            };
            (route.host.is_none(), prefix, usize::MAX - length)
        });
        Router { routes }
    }

    /// The route of a request to `host` (perhaps with a port) for `path` (without query).
    pub(crate) fn find(&self, host: &[u8], path: &[u8]) -> Option<Routed<'_>> {
        let host = without_port(host);
        let route = self.routes.iter().find(|route| route.matches(host, path))?;
        let to = match &route.destination {
            Destination::Pool(index) => To::Pool(*index),
            Destination::Reply(reply) => To::Reply(reply),
        };
        Some(Routed { name: &route.name, to })
    }
}

impl Route {
    fn matches(&self, host: &[u8], path: &[u8]) -> bool {
        if let Some(wanted) = &self.host
            && !wanted.as_bytes().eq_ignore_ascii_case(host)
        {
            return false;
        }
        match &self.path {
            PathMatch::Exact(wanted) => wanted.as_bytes() == path,
            PathMatch::Prefix(wanted) => starts_at_border(wanted.as_bytes(), path),
        }
    }
}

fn starts_at_border(prefix: &[u8], path: &[u8]) -> bool {
    // `OPTIONS *` asks about the whole site.
    if path == b"*" {
        return prefix == b"/";
    }
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.ends_with(b"/") || rest[0] == b'/'
}

fn without_port(host: &[u8]) -> &[u8] {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    match host[..host.len() - digits].strip_suffix(b":") {
        Some(name) if !name.is_empty() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: Option<&str>, path: PathMatch, pool: usize) -> RouteSettings {
        RouteSettings { host: host.map(String::from), path, destination: Destination::Pool(pool) }
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
            ("[::1]:80", "/static/x", Some(4)),
            ("[::1]", "/static", Some(0)),
            ("a", "*", Some(0)),
        ] {
            let found = router.find(host.as_bytes(), path.as_bytes());
            let index = found.and_then(|routed| match routed.to {
                To::Pool(index) => Some(index),
                To::Reply(_) => None,
            });
            assert_eq!(index, pool, "{host} {path}");
        }
    }

    #[test]
    fn without_a_match_there_is_no_route() {
        let router = Router::new(&[route(None, prefix("/api"), 0)]);
        assert!(router.find(b"a", b"/").is_none());
    }
}
