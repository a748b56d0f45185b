//! Names of things that live for a while. All are plain numbers; ties are broken by them.
//!
//! Newtypes, so that a worker cannot be passed for a shard. Absent: names of the configuration,
//! which are looked up once at start, and process ids, which the system uses again.

/// A worker of one pool. Stable over restarts of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

/// One of our own event-loop threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// An exchange as a gate knows it. Chosen by the shell; unique in one gate while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Somebody who asks, as a number that a shell makes of a name or an address. Zero: nobody known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u64);

/// One of those among whom a pool is shared evenly. Zero: those who name none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u64);

/// What exchanges have in common that should go to the same worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

impl Key {
    /// Any worker will do.
    pub const NONE: Key = Key(0);
}

/// A kind of exchange: those that take a worker about as long. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u64);
