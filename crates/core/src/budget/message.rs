//! What a budget is told, and what it answers.
//!
//! A body is a number to the budget; the shell hands the numbers out in the order in which bodies
//! begin, so a lower number is an older body. The shell knows what each body holds and says so when
//! it gives bytes back; the budget keeps sums, and single bodies only while they grow or wait.

use crate::units::ByteSize;

/// One body of one exchange. Lower is older. Unique while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyId(pub u64);

/// Which kind of body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A request body.
    Intake,
    /// A response body.
    Collect,
}

/// What bytes are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Intake: all that the body will ever need in memory.
    Whole,
    /// Intake: the next step of a body that may ask again.
    Step,
    /// Collect: the first bytes of a response that has to be buffered.
    Window,
    /// Collect: more than the window, where there is no spill folder.
    Growth,
    /// Collect: to be written to the spill folder in larger pieces while the worker sends. Short of
    /// life.
    Stage,
    /// Either side: bytes that would be in the spill folder if the answer is no.
    Spare(Side),
    /// Intake, in the spill folders: all that the body will ever need there.
    SpillWhole,
    /// Intake, in the spill folders: the next step of a body that may ask again.
    SpillStep,
    /// Collect, in the spill folders.
    SpillGrowth,
}

impl Purpose {
    /// The side that holds the bytes.
    pub fn side(self) -> Side {
        match self {
            Purpose::Whole | Purpose::Step | Purpose::SpillWhole | Purpose::SpillStep => {
                Side::Intake
            }
            Purpose::Window | Purpose::Growth | Purpose::Stage | Purpose::SpillGrowth => {
                Side::Collect
            }
            Purpose::Spare(side) => side,
        }
    }

    /// Whether the bytes are in the spill folders, not in memory.
    pub fn is_spill(self) -> bool {
        matches!(self, Purpose::SpillWhole | Purpose::SpillStep | Purpose::SpillGrowth)
    }
}

/// A wish for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Whose.
    pub body: BodyId,
    /// How many.
    pub bytes: ByteSize,
    /// What for.
    pub purpose: Purpose,
}

/// Something happened that the budget has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes are wanted now or not at all. Answered at once: [`Output::Granted`] or
    /// [`Output::Full`].
    Charge(Charge),
    /// Bytes are wanted and the body can wait (request bodies only, and not for what is spare).
    /// Answered, now or later, with [`Output::Granted`] or [`Output::Shed`]. A body waits for one
    /// charge at a time; a second one takes the place of the first.
    Wait(Charge),
    /// The body is whole and will not ask again.
    Complete(BodyId),
    /// Some of what a body holds comes back.
    Return {
        /// Which kind of body.
        side: Side,
        /// How many.
        bytes: ByteSize,
    },
    /// Some of what a body holds in the spill folders comes back.
    ReturnSpill {
        /// How many.
        bytes: ByteSize,
    },
    /// What the kernel holds for one client changed. It is not asked for: the kernel has it.
    Sockets {
        /// What was told for that client before.
        before: ByteSize,
        /// What it is now.
        after: ByteSize,
    },
    /// The body is gone; all that it holds comes back, and it waits no longer.
    Close {
        /// Which body.
        body: BodyId,
        /// Which kind.
        side: Side,
        /// How many bytes it held in memory.
        bytes: ByteSize,
        /// How many in the spill folders.
        spilled: ByteSize,
    },
}

/// An answer to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The bytes that it asked for are its own.
    Granted(BodyId),
    /// Not now.
    Full(BodyId),
    /// It waited too long, asked for more than there can be, or holds up an older body. What it
    /// holds stays charged until it is closed.
    Shed(BodyId),
}

impl Output {
    /// Whom it answers.
    pub fn body(self) -> BodyId {
        match self {
            Output::Granted(body) | Output::Full(body) | Output::Shed(body) => body,
        }
    }
}
