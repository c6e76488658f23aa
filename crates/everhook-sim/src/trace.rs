//! The ordered trace of all events. It is always hashed, and printed on request.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Trace {
    started: Instant,
    state: Mutex<State>,
    print: bool,
}

#[derive(Debug)]
struct State {
    hash: u64,
    events: usize,
}

impl Trace {
    #[expect(clippy::disallowed_methods, reason = "virtual time")]
    pub(crate) fn new(print: bool) -> Trace {
        Trace { started: Instant::now(), state: Mutex::new(State { hash: 0xcbf2_9ce4_8422_2325, events: 0 }), print }
    }

    /// Returns the virtual time since the start of the world.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn event(&self, text: fmt::Arguments<'_>) {
        let line = format!("{:>12} {text}", self.elapsed().as_micros());
        if self.print {
            eprintln!("{line}");
        }
        let mut state = self.state.lock().expect("one thread");
        state.events += 1;
        for byte in line.bytes() {
            state.hash = (state.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Returns a hash of all events so far, and their number.
    pub(crate) fn fingerprint(&self) -> (u64, usize) {
        let state = self.state.lock().expect("one thread");
        (state.hash, state.events)
    }
}
