//! A receiver that records all requests and gives the configured answers.
//!
//! A test can ask at any time which requests arrived, how often and in which order. The receiver runs on its own
//! thread, so that tests can wait for it by blocking or in an event loop.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::background::Background;
use crate::responder::{Incoming, Respond, Responder, Response};
use crate::wait::{Deadline, PATIENCE, unix_seconds};

#[derive(Clone)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The time of the request in Unix seconds.
    pub at: i64,
    /// The status of the answer; 0 before it is sent.
    pub answered: u16,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// Produces the answers of a path.
type Script = Box<dyn FnMut() -> Answer + Send>;

/// A running receiver. Every path answers 204 by default.
pub struct Receiver {
    address: String,
    shared: Arc<Shared>,
    _background: Background,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes tests that wait by blocking.
    changed: Condvar,
    /// Wakes hanging requests, and tests that wait in an event loop.
    notify: Notify,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    scripts: HashMap<String, Script>,
    /// The answer of paths without a script; 204 by default.
    other: Option<Answer>,
    /// Paths that currently do not answer.
    hanging: BTreeSet<String>,
}

impl Seen {
    /// Returns the value of a header that must exist exactly once.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let (_, value) = values.next().unwrap_or_else(|| panic!("no header {name} on {self:?}"));
        assert!(values.next().is_none(), "more than one header {name} on {self:?}");
        value
    }

    /// Returns the id of the delivered message.
    #[track_caller]
    pub fn message(&self) -> &str {
        self.header("webhook-id")
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
        write!(f, "{} {} {:?} {body}", self.method, self.path, self.headers)
    }
}

impl Answer {
    /// An answer without headers and body.
    pub fn status(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Answer {
        self.body = body.into();
        self
    }
}

impl Receiver {
    pub fn start() -> Receiver {
        let background = Background::start().expect("a thread can be started");
        let responder = {
            let _inside = background.enter();
            Responder::open().expect("there is a free port")
        };
        let address = responder.address().expect("it listens");
        let shared = Arc::new(Shared::default());
        background.spawn(responder.run(Arc::clone(&shared)));
        Receiver { address, shared, _background: background }
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Makes `path` always give this answer.
    pub fn answer(&self, path: &str, then: Answer) {
        self.answer_in_turn(path, [], then);
    }

    /// Makes all paths without an answer of their own give this answer.
    pub fn answer_others(&self, then: Answer) {
        self.shared.lock().other = Some(then);
    }

    /// Makes `path` give the answers of `first` in turn, and then always `then`.
    pub fn answer_in_turn(&self, path: &str, first: impl IntoIterator<Item = Answer>, then: Answer) {
        let mut first = first.into_iter().collect::<VecDeque<_>>();
        self.answer_by(path, move || first.pop_front().unwrap_or_else(|| then.clone()));
    }

    /// Makes `path` give the answers that `script` returns.
    pub fn answer_by(&self, path: &str, script: impl FnMut() -> Answer + Send + 'static) {
        self.shared.lock().scripts.insert(path.to_owned(), Box::new(script));
    }

    /// Makes `path` take requests without answering, until it is released.
    pub fn hang(&self, path: &str) {
        self.shared.lock().hanging.insert(path.to_owned());
    }

    /// Answers the hanging requests of `path`, and later ones, by its script.
    pub fn release(&self, path: &str) {
        self.shared.lock().hanging.remove(path);
        self.shared.announce();
    }

    /// The number of requests to all paths.
    pub fn count(&self) -> usize {
        self.shared.lock().seen.len()
    }

    /// Returns all requests in order.
    pub fn everything(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// Returns all requests to `path` in order.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        self.shared.lock().seen.iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// Waits until `path` has got this many requests, and returns them.
    #[track_caller]
    pub fn wait_for(&self, path: &str, count: usize) -> Vec<Seen> {
        self.wait(&format!("{count} requests to {path}"), |seen| {
            seen.iter().filter(|seen| seen.path == path).count() >= count
        });
        self.seen(path)
    }

    /// Waits until all of `messages` have arrived at `path`, in any order and any number of times.
    #[track_caller]
    pub fn wait_for_messages(&self, path: &str, messages: &[impl AsRef<str>]) {
        self.wait(&format!("{} messages at {path}", messages.len()), |seen| {
            let came = seen.iter().filter(|seen| seen.path == path).map(Seen::message).collect::<BTreeSet<_>>();
            messages.iter().all(|message| came.contains(message.as_ref()))
        });
    }

    /// Waits until `enough` returns true for the recorded requests.
    #[track_caller]
    pub fn wait(&self, what: &str, enough: impl Fn(&[Seen]) -> bool) {
        let give_up = Deadline::new(PATIENCE);
        let mut state = self.shared.lock();
        while !enough(&state.seen) {
            assert!(!give_up.is_over(), "waited in vain for {what}; {} requests came in all", state.seen.len());
            (state, _) = self
                .shared
                .changed
                .wait_timeout(state, give_up.left())
                .unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Waits in an event loop until `path` has got this many requests, and returns them.
    pub async fn arrived(&self, path: &str, count: usize) -> Vec<Seen> {
        loop {
            let changed = self.shared.notify.notified();
            let seen = self.seen(path);
            if seen.len() >= count {
                return seen;
            }
            changed.await;
        }
    }
}

impl Shared {
    /// A test that fails while it holds the lock must not hide the messages of other failures, so a poisoned lock is
    /// used.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn announce(&self) {
        self.changed.notify_all();
        self.notify.notify_waiters();
    }

    fn record(&self, seen: Seen) -> usize {
        let mut state = self.lock();
        state.seen.push(seen);
        state.seen.len() - 1
    }

    /// Returns the answer to a request; none while its path hangs.
    fn answer(&self, number: usize) -> Option<Answer> {
        let mut state = self.lock();
        let path = state.seen[number].path.clone();
        if state.hanging.contains(&path) {
            return None;
        }
        let other = state.other.clone().unwrap_or_else(|| Answer::status(204));
        let answer = state.scripts.get_mut(&path).map_or(other, |script| script());
        state.seen[number].answered = answer.status;
        Some(answer)
    }
}

impl Respond for Shared {
    async fn respond(&self, request: Incoming<'_>) -> Response {
        let word = |number| request.word(number).unwrap_or_default().to_owned();
        let headers = request.headers().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let (method, path, body) = (word(0), word(1), request.body.to_vec());
        let number = self.record(Seen { method, path, headers, body, at: unix_seconds(), answered: 0 });
        self.announce();
        loop {
            let changed = self.notify.notified();
            if let Some(answer) = self.answer(number) {
                return Response::new(answer.status, &answer.headers, &answer.body);
            }
            changed.await;
        }
    }
}
