//! How long a scenario waits for what must come, and how it looks for what sends no event.

use std::time::Duration;

use spillgate_runtime::clock;

/// The longest wait for anything that must come. Far more than a busy machine needs: a scenario
/// that runs into it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Look again and again until `look` finds something. For what sends no event to wait on; panics
/// with `what` when it never comes.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let last = clock::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock::now() < last, "never came: {what}");
        std::thread::park_timeout(LOOK_AGAIN);
    }
}
