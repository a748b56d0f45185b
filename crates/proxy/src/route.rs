//! From host and path to a destination.
//!
//! The most specific route wins: one with a host before one without, exact before prefix, a longer
//! prefix before a shorter one. Matching works on the bytes of the request, and its time grows with
//! the logarithm of the number of routes.
//!
//! Paths are compared in their plain form (`path.rs`). A request goes to a worker only if every
//! way in which workers read its path leads to the same place; otherwise it is refused, or a route
//! to one pool would be a way around a reply or into another pool. A reply of ours is sent for the
//! plain form alone: no worker reads it. Where all paths lead to one place, nothing is refused.
//! Only a path that is not plain costs an allocation.
//!
//! The paths of a host are sorted. Every configured path that a request's path begins with is then
//! the last one not after it, or one that this begins with in turn, so each path knows the longest
//! other one that it begins with (an ordinary search for the longest prefix in a sorted list; a
//! radix tree would do the same with more code).

use std::cmp::Ordering;

use spillgate_core::gate::Class;
use spillgate_runtime::events::json;

use crate::path::{Reading, Spelling, is_plain};
use crate::settings::{CallerClasses, Destination, PathMatch, ReplySettings, RouteSettings};

/// The routes, ready to be asked.
#[derive(Debug)]
pub struct Router {
    /// Sorted by name.
    hosts: Vec<(String, Paths)>,
    /// The routes of any host.
    any: Paths,
    /// Not all requests lead to the same place.
    forks: bool,
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
    callers: CallerClasses,
}

/// Why a request leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unrouted {
    /// No route matches.
    NoRoute,
    /// Workers may read its path in several ways, and they do not lead to the same place.
    Ambiguous,
}

/// Where a request leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'r> {
    /// The route as the log names it: its path, as a JSON string.
    pub(crate) name: &'r [u8],
    /// The class that the route gives its exchanges.
    pub(crate) class: Option<Class>,
    /// The classes that it gives those of certain callers.
    pub(crate) callers: &'r CallerClasses,
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
        let mut router = Router { hosts: Vec::new(), any: Paths::default(), forks: true };
        for route in routes {
            let paths = match &route.host {
                Some(host) => router.of_host(host),
                None => &mut router.any,
            };
            paths.add(&route.path, Leads::new(route));
        }
        let all = router.hosts.iter_mut().map(|(_, paths)| paths).chain([&mut router.any]);
        all.for_each(Paths::find_parents);
        let Some(first) = routes.first().map(Leads::new) else { return router };
        let has_root = router.any.find(b"/").is_some_and(|(root, _)| root.prefix.is_some());
        router.forks = !has_root || routes.iter().any(|route| !Leads::new(route).is_like(&first));
        router
    }

    fn of_host(&mut self, name: &str) -> &mut Paths {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let at = self.hosts.binary_search_by(|(known, _)| known.cmp(&name)).unwrap_or_else(|at| {
            self.hosts.insert(at, (name, Paths::default()));
            at
        });
        &mut self.hosts[at].1
    }

    /// The route of a request to `host` (perhaps with a port) for `path` (without query).
    pub(crate) fn find(&self, host: &[u8], path: &[u8]) -> Result<Routed<'_>, Unrouted> {
        let host = without_root(without_port(host));
        let known = self.hosts.binary_search_by(|(known, _)| cmp_in_lower_case(known, host)).ok();
        let own = known.map(|at| &self.hosts[at].1);
        match is_plain(path) {
            true => self.look_up(own, path).map(Routed::from).ok_or(Unrouted::NoRoute),
            false => self.find_spelled(own, path),
        }
    }

    /// The same where workers may read `path` in several ways.
    #[cold]
    fn find_spelled<'r>(
        &'r self,
        own: Option<&'r Paths>,
        path: &[u8],
    ) -> Result<Routed<'r>, Unrouted> {
        let mut plain = Vec::with_capacity(path.len());
        Reading::PLAIN.read(path, &mut plain);
        let found = self.look_up(own, &plain).ok_or(Unrouted::NoRoute)?;
        if !self.forks || matches!(found.1.destination, Destination::Reply(_)) {
            return Ok(found.into());
        }
        let spelling = Spelling::of(path);
        let agrees = |reading: Reading| {
            reading.read(path, &mut plain);
            self.look_up(own, &plain).is_some_and(|(_, leads)| leads.is_like(found.1))
        };
        match !spelling.is_beyond_reading() && spelling.readings().all(agrees) {
            true => Ok(found.into()),
            false => Err(Unrouted::Ambiguous),
        }
    }

    fn look_up<'r>(&'r self, own: Option<&'r Paths>, path: &[u8]) -> Option<(&'r Path, &'r Leads)> {
        own.and_then(|own| own.find(path)).or_else(|| self.any.find(path))
    }
}

impl Leads {
    fn new(route: &RouteSettings) -> Leads {
        Leads {
            destination: route.destination.clone(),
            class: route.class,
            callers: route.class_callers.clone(),
        }
    }

    /// Whether both lead into one pool, in one class for each caller.
    fn is_like(&self, other: &Leads) -> bool {
        match (&self.destination, &other.destination) {
            (Destination::Pool(one), Destination::Pool(two)) => {
                one == two && self.class == other.class && self.callers == other.callers
            }
            _ => false,
        }
    }
}

impl<'r> From<(&'r Path, &'r Leads)> for Routed<'r> {
    fn from((path, leads): (&'r Path, &'r Leads)) -> Routed<'r> {
        let to = match &leads.destination {
            Destination::Pool(index) => To::Pool(*index),
            Destination::Reply(reply) => To::Reply(reply),
        };
        Routed { name: &path.quoted, class: leads.class, callers: &leads.callers, to }
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

/// Without the dot at the end, which names the root of all names: with it, or without, it is the
/// same host (RFC 1034 section 3.1).
fn without_root(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests;
