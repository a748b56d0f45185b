//! From host and path to a destination.
//!
//! The most specific route wins: one with a host before one without, exact before prefix, a longer
//! prefix before a shorter one. Matching works on the bytes of the request and allocates nothing,
//! and its time grows with the logarithm of the number of routes.
//!
//! The paths of a host are sorted. Every configured path that a request's path begins with is then
//! the last one not after it, or one that this begins with in turn, so each path knows the longest
//! other one that it begins with (an ordinary search for the longest prefix in a sorted list; a
//! radix tree would do the same with more code).

use std::cmp::Ordering;

use spillgate_core::gate::Class;
use spillgate_runtime::events::json;

use crate::settings::{Destination, PathMatch, ReplySettings, RouteSettings};

/// The routes, ready to be asked.
#[derive(Debug)]
pub struct Router {
    /// Sorted by name.
    hosts: Vec<(String, Paths)>,
    /// The routes of any host.
    any: Paths,
}

/// The routes of one host, sorted by path.
#[derive(Debug, Default)]
struct Paths(Vec<Path>);

/// The routes of one path.
#[derive(Debug)]
struct Path {
    path: String,
    /// The path as a JSON string.
    quoted: Vec<u8>,
    exact: Option<Leads>,
    prefix: Option<Leads>,
    /// The longest other path that this one begins with.
    parent: Option<usize>,
}

/// What a route says.
#[derive(Clone, Debug)]
struct Leads {
    destination: Destination,
    class: Option<Class>,
}

/// Where a request leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'r> {
    /// The route as the log names it: its path, as a JSON string.
    pub(crate) name: &'r [u8],
    /// The class that the route gives its exchanges.
    pub(crate) class: Option<Class>,
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
    /// Put them in order. Of two equal routes the first wins.
    pub fn new(routes: &[RouteSettings]) -> Router {
        let mut router = Router { hosts: Vec::new(), any: Paths::default() };
        for route in routes {
            let paths = match &route.host {
                Some(host) => router.of_host(host),
                None => &mut router.any,
            };
            let leads = Leads { destination: route.destination.clone(), class: route.class };
            paths.add(&route.path, leads);
        }
        let all = router.hosts.iter_mut().map(|(_, paths)| paths).chain([&mut router.any]);
        all.for_each(Paths::find_parents);
        router
    }

    fn of_host(&mut self, name: &str) -> &mut Paths {
        let name = name.to_ascii_lowercase();
        let at = self.hosts.binary_search_by(|(known, _)| known.cmp(&name)).unwrap_or_else(|at| {
            self.hosts.insert(at, (name, Paths::default()));
            at
        });
        &mut self.hosts[at].1
    }

    /// The route of a request to `host` (perhaps with a port) for `path` (without query).
    pub(crate) fn find(&self, host: &[u8], path: &[u8]) -> Option<Routed<'_>> {
        let host = without_port(host);
        let known = self.hosts.binary_search_by(|(known, _)| cmp_in_lower_case(known, host)).ok();
        let own = known.and_then(|at| self.hosts[at].1.find(path));
        let (route, leads) = own.or_else(|| self.any.find(path))?;
        let to = match &leads.destination {
            Destination::Pool(index) => To::Pool(*index),
            Destination::Reply(reply) => To::Reply(reply),
        };
        Some(Routed { name: &route.quoted, class: leads.class, to })
    }
}

impl Paths {
    fn add(&mut self, path: &PathMatch, leads: Leads) {
        let (PathMatch::Exact(text) | PathMatch::Prefix(text)) = path;
        let at = self.search(text.as_bytes()).unwrap_or_else(|at| {
            let (path, quoted) = (text.clone(), json::quoted(text));
            let path = Path { path, quoted, exact: None, prefix: None, parent: None };
            self.0.insert(at, path);
            at
        });
        let known = &mut self.0[at];
        let place = match path {
            PathMatch::Exact(_) => &mut known.exact,
            PathMatch::Prefix(_) => &mut known.prefix,
        };
        place.get_or_insert(leads);
    }

    /// To be called when all are there.
    fn find_parents(&mut self) {
        for at in 1..self.0.len() {
            // What the one before does not begin with, this one does not either, or is it itself.
            let mut parent = Some(at - 1);
            while let Some(known) = parent
                && !self.0[at].path.starts_with(&self.0[known].path)
            {
                parent = self.0[known].parent;
            }
            self.0[at].parent = parent;
        }
    }

    fn search(&self, path: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|known| known.path.as_bytes().cmp(path))
    }

    fn find(&self, path: &[u8]) -> Option<(&Path, &Leads)> {
        // `OPTIONS *` asks about the whole site.
        let is_site = path == b"*";
        let path = if is_site { b"/" } else { path };
        let found = self.search(path);
        if let Ok(at) = found
            && !is_site
            && let Some(exact) = &self.0[at].exact
        {
            return Some((&self.0[at], exact));
        }
        let mut next = found.map_or_else(|after| after.checked_sub(1), Some);
        while let Some(at) = next {
            let known = &self.0[at];
            if let Some(prefix) = &known.prefix
                && starts_at_border(known.path.as_bytes(), path)
            {
                return Some((known, prefix));
            }
            next = known.parent;
        }
        None
    }
}

fn cmp_in_lower_case(lower: &str, host: &[u8]) -> Ordering {
    lower.bytes().cmp(host.iter().map(u8::to_ascii_lowercase))
}

fn starts_at_border(prefix: &[u8], path: &[u8]) -> bool {
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
    use spillgate_core::rng::Rng;

    use super::*;

    fn route(host: Option<&str>, path: PathMatch, pool: usize) -> RouteSettings {
        RouteSettings {
            host: host.map(String::from),
            path,
            class: None,
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

    /// What [`Router`] says, said plainly: the best of all that match.
    fn plainly<'r>(routes: &'r [RouteSettings], host: &str, path: &str) -> Option<&'r Destination> {
        let matching = routes.iter().filter(|route| {
            let host_fits = route.host.as_deref().is_none_or(|wanted| wanted == host);
            host_fits
                && match &route.path {
                    PathMatch::Exact(wanted) => wanted == path,
                    PathMatch::Prefix(wanted) if path == "*" => wanted == "/",
                    PathMatch::Prefix(wanted) => {
                        starts_at_border(wanted.as_bytes(), path.as_bytes())
                    }
                }
        });
        let rank = |route: &&RouteSettings| match &route.path {
            PathMatch::Exact(_) => (route.host.is_some(), true, 0),
            PathMatch::Prefix(wanted) => (route.host.is_some(), false, wanted.len()),
        };
        // Of equal ones `max_by_key` takes the last, and the first wins.
        matching.rev().max_by_key(rank).map(|route| &route.destination)
    }

    #[test]
    fn the_search_finds_what_a_look_at_every_route_finds() {
        let mut rng = Rng::new(1);
        let mut below = |count: u64| rng.below(count);
        let pieces = ["/", "a", "b", "/a", "/ab", "-"];
        let path = |below: &mut dyn FnMut(u64) -> u64| {
            let mut path = String::from("/");
            for _ in 0..below(6) {
                path += pieces[below(6) as usize];
            }
            path
        };
        let hosts = [None, None, Some("a"), Some("b.example")];
        for _ in 0..300 {
            let routes: Vec<RouteSettings> = (0..below(40) as usize)
                .map(|pool| {
                    let text = path(&mut below);
                    let is_exact = below(3) == 0;
                    let path =
                        if is_exact { PathMatch::Exact(text) } else { PathMatch::Prefix(text) };
                    route(hosts[below(4) as usize], path, pool)
                })
                .collect();
            let router = Router::new(&routes);
            for _ in 0..50 {
                let host = hosts[below(4) as usize].unwrap_or("other");
                let path = if below(20) == 0 { "*".to_owned() } else { path(&mut below) };
                let wanted = plainly(&routes, host, &path).map(|destination| match destination {
                    Destination::Pool(pool) => *pool,
                    Destination::Reply(_) => panic!("no route replies"),
                });
                let found = router.find(host.to_uppercase().as_bytes(), path.as_bytes());
                let found = found.map(|routed| match routed.to {
                    To::Pool(pool) => pool,
                    To::Reply(_) => panic!("no route replies"),
                });
                assert_eq!(found, wanted, "{host} {path} of {routes:?}");
            }
        }
    }

    #[test]
    fn without_a_match_there_is_no_route() {
        let router = Router::new(&[route(None, prefix("/api"), 0)]);
        assert!(router.find(b"a", b"/").is_none());
    }
}
