//! Limits the failed authentications of each client address.
//!
//! A caller with a valid key is never refused here: a key that this node has seen work is looked up as always. Over the
//! limit, other keys are refused without asking the store, until the minute is over.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use everhook_core::time::Timestamp;

use crate::limits::FAILURE_ADDRESSES_MAX;

/// The time in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The address of the client, which the server notes at each request. Requests without one count as one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

pub(crate) struct Failures {
    max: u32,
    windows: Mutex<HashMap<Option<IpAddr>, Window>>,
}

#[derive(Clone, Copy)]
struct Window {
    since: Timestamp,
    count: u32,
}

impl Failures {
    /// Allows `max` failures in a minute; 0 means no limit.
    pub(crate) fn new(max: u32) -> Failures {
        Failures { max, windows: Mutex::default() }
    }

    /// Returns the time until the client may fail again, if it is over the limit.
    pub(crate) fn wait(&self, client: Option<IpAddr>, now: Timestamp) -> Option<Duration> {
        let window = *self.lock().get(&client)?;
        let is_over = self.max > 0 && window.count >= self.max && window.is_open(now);
        is_over.then(|| window.since.plus(WINDOW).since(now))
    }

    /// Counts a failure.
    pub(crate) fn add(&self, client: Option<IpAddr>, now: Timestamp) {
        if self.max == 0 {
            return;
        }
        let mut windows = self.lock();
        if windows.len() >= FAILURE_ADDRESSES_MAX {
            windows.retain(|_, window| window.is_open(now));
            if windows.len() >= FAILURE_ADDRESSES_MAX {
                windows.clear();
            }
        }
        let window = windows.entry(client).or_insert(Window { since: now, count: 0 });
        if !window.is_open(now) {
            *window = Window { since: now, count: 0 };
        }
        window.count = window.count.saturating_add(1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Option<IpAddr>, Window>> {
        self.windows.lock().expect("nothing panics while it holds this lock")
    }
}

impl Window {
    /// If the clock was set back, the window would last too long.
    fn is_open(self, now: Timestamp) -> bool {
        now >= self.since && now < self.since.plus(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_750_000_000_000);

    fn client(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn a_client_over_the_limit_waits_for_the_end_of_the_minute() {
        let failures = Failures::new(2);
        failures.add(client(1), AT);
        assert_eq!(failures.wait(client(1), AT), None);
        failures.add(client(1), AT.plus(Duration::from_secs(20)));
        assert_eq!(failures.wait(client(1), AT.plus(Duration::from_secs(20))), Some(Duration::from_secs(40)));
        assert_eq!(failures.wait(client(2), AT), None, "other clients are not affected");
        assert_eq!(failures.wait(client(1), AT.plus(WINDOW)), None);
        failures.add(client(1), AT.plus(WINDOW));
        assert_eq!(failures.wait(client(1), AT.plus(WINDOW)), None, "a new minute begins with one failure");
    }

    #[test]
    fn without_a_limit_nothing_is_counted_and_many_addresses_are_bounded() {
        let open = Failures::new(0);
        open.add(client(1), AT);
        assert_eq!((open.wait(client(1), AT), open.lock().len()), (None, 0));
        let failures = Failures::new(1);
        for n in 0..=u32::try_from(FAILURE_ADDRESSES_MAX).unwrap() {
            failures.add(Some(IpAddr::from(n.to_be_bytes())), AT);
        }
        assert!(failures.lock().len() <= FAILURE_ADDRESSES_MAX);
    }
}
