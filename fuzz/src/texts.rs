//! What must hold for any text whatever, per file that the simulator reads: one function each,
//! which panics when it does not. The plain tests of the simulator include this file and call them
//! with the committed corpus.
//!
//! Common to all: no panic, an error that can be shown, and the same verdict for the same text.

use spillgate_core::gate::trace::Trace;
use spillgate_sim::{Scenario, replay};

/// A recorded trace of a gate: read, and fed to a gate, which must keep its invariants whatever it
/// is told.
pub fn trace(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Trace::parse(text) {
        Ok(trace) => assert_eq!(Trace::parse(text), Ok(trace)),
        Err(error) => assert!(error.to_string().starts_with(&format!("line {}: ", error.line))),
    }
    let replayed = replay(text);
    if let Err(error) = &replayed {
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(replay(text), replayed);
}

/// A scenario file: read, and not run, since the largest one that is allowed takes minutes.
pub fn scenario(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Scenario::parse(text) {
        Ok(scenario) => {
            let settings = scenario.settings();
            assert!(settings.iter().all(|settings| settings.slots.count() > 0));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A recorded access log that a scenario names: read, with its requests in order.
pub fn access_log(input: &[u8]) {
    let text = "name = \"log\"\ntime = \"1s\"\n[[clients]]\nlog = { path = \"log\" }\n\
                [pool.app.workers]\ncount = 1\nservice = \"1ms\"\n";
    if let Err(error) = Scenario::parse_with(text, &mut |_| Ok(input.to_vec())) {
        assert!(error.to_string().contains("in the log, "), "{error}");
    }
}
