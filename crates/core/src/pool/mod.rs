//! Which workers there are and whether each is worth sending to.
//!
//! Data and pure rules of the gate, not a second machine: which worker an exchange gets and whether
//! it gets one are a single decision, so they live behind one face, [`crate::gate::Gate`].

/// Whether a worker gets exchanges, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not known to serve yet: no probe has succeeded, or the supervisor has not said ready.
    Starting,
    /// Gets exchanges.
    Up,
    /// Gets none until a probe succeeds.
    Out(OutReason),
    /// Gets no new ones; the running ones end.
    Draining,
    /// Its process is not running.
    Down,
}

/// Why a worker is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutReason {
    /// A connection was refused.
    Refused,
    /// It broke an exchange off.
    Reset,
    /// It said that it cannot take more.
    Refusal,
    /// It did not answer in time.
    Stuck,
    /// Probes failed.
    Probe,
    /// Too many failures in a row.
    Ejected,
}
