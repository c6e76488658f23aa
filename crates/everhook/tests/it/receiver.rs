//! A receiver that records every request and gives scripted replies.
//!
//! Plain TCP with a thread per connection: it can hang, send nonsense and be slow, unlike a proper server. It keeps
//! every request, so that a test can check later what arrived, how often and in which order.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::signature;
use crate::wait::{Deadline, PATIENCE};

#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Status of the reply; 0 until the reply is sent.
    pub(crate) answered: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

type Script = Box<dyn FnMut() -> Answer + Send>;

/// A running receiver. Every path replies 204 by default.
pub(crate) struct Receiver {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    scripts: HashMap<String, Script>,
    /// Paths that hold back their replies.
    hanging: BTreeSet<String>,
    closed: bool,
}

impl Seen {
    /// Asserts that a header occurs exactly once, and returns its value.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let (_, value) = values.next().unwrap_or_else(|| panic!("no header {name} on {self:?}"));
        assert!(values.next().is_none(), "more than one header {name} on {self:?}");
        value
    }

    /// The id of the delivered message.
    #[track_caller]
    pub(crate) fn message(&self) -> &str {
        self.header("webhook-id")
    }

    /// Asserts that the request is signed with `secret`.
    #[track_caller]
    pub(crate) fn verify(&self, secret: &str) {
        signature::verify(self, secret);
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
        write!(f, "{} {} {:?} {body}", self.method, self.path, self.headers)
    }
}

impl Answer {
    pub(crate) fn status(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Answer {
        self.body = body.into();
        self
    }
}

impl Receiver {
    pub(crate) fn start() -> Receiver {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let listening = Arc::clone(&shared);
        thread::spawn(move || listening.listen(&listener));
        Receiver { port, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Lets `path` always reply with `then`.
    pub(crate) fn answer(&self, path: &str, then: Answer) {
        self.answer_in_turn(path, [], then);
    }

    /// Lets `path` reply with the items of `first` in turn, and then always with `then`.
    pub(crate) fn answer_in_turn(&self, path: &str, first: impl IntoIterator<Item = Answer>, then: Answer) {
        let mut first = first.into_iter().collect::<VecDeque<_>>();
        self.answer_by(path, move || first.pop_front().unwrap_or_else(|| then.clone()));
    }

    /// Lets `path` reply with the results of `script`.
    pub(crate) fn answer_by(&self, path: &str, script: impl FnMut() -> Answer + Send + 'static) {
        self.shared.lock().scripts.insert(path.to_owned(), Box::new(script));
    }

    /// Lets `path` accept requests without a reply, until `release`.
    pub(crate) fn hang(&self, path: &str) {
        self.shared.lock().hanging.insert(path.to_owned());
    }

    /// Replies to all held requests of `path`, and to later ones, by its script.
    pub(crate) fn release(&self, path: &str) {
        self.shared.lock().hanging.remove(path);
        self.shared.changed.notify_all();
    }

    /// Number of requests on all paths.
    pub(crate) fn count(&self) -> usize {
        self.shared.lock().seen.len()
    }

    pub(crate) fn everything(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// All requests to `path`, in order.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        self.shared.lock().seen.iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// Waits until `path` has this many requests, and returns them.
    #[track_caller]
    pub(crate) fn wait_for(&self, path: &str, count: usize) -> Vec<Seen> {
        self.wait(&format!("{count} requests to {path}"), |seen| {
            seen.iter().filter(|seen| seen.path == path).count() >= count
        });
        self.seen(path)
    }

    /// Waits until each of `messages` has arrived at `path`, in any number and order.
    #[track_caller]
    pub(crate) fn wait_for_messages(&self, path: &str, messages: &[impl AsRef<str>]) {
        self.wait(&format!("{} messages at {path}", messages.len()), |seen| {
            let came = seen.iter().filter(|seen| seen.path == path).map(Seen::message).collect::<BTreeSet<_>>();
            messages.iter().all(|message| came.contains(message.as_ref()))
        });
    }

    /// Waits until `enough` is true of all requests.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, enough: impl Fn(&[Seen]) -> bool) {
        let give_up = Deadline::new(PATIENCE);
        let mut state = self.shared.lock();
        while !enough(&state.seen) {
            assert!(!give_up.is_over(), "waited in vain for {what}; {} requests came in all", state.seen.len());
            (state, _) = self.shared.changed.wait_timeout(state, give_up.left()).unwrap();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        // The listening thread checks the flag when a connection arrives.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    /// A test that fails while it holds the lock must not hide the reports of other threads.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn listen(self: &Arc<Shared>, listener: &TcpListener) {
        for connection in listener.incoming() {
            if self.lock().closed {
                return;
            }
            let Ok(connection) = connection else { continue };
            let shared = Arc::clone(self);
            // A sender that disconnects or is killed ends only its own connection.
            thread::spawn(move || shared.converse(connection));
        }
    }

    fn converse(&self, mut connection: TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(seen) = read_request(&mut reader)? {
            let Some(answer) = self.record(seen) else { return Ok(()) };
            write_answer(&mut connection, &answer)?;
        }
        Ok(())
    }

    /// Records a request and returns its reply, if the path does not hang.
    fn record(&self, seen: Seen) -> Option<Answer> {
        let path = seen.path.clone();
        let mut state = self.lock();
        let number = state.seen.len();
        state.seen.push(seen);
        self.changed.notify_all();
        while state.hanging.contains(&path) && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if state.closed {
            return None;
        }
        let answer = state.scripts.get_mut(&path).map_or_else(|| Answer::status(204), |script| script());
        state.seen[number].answered = answer.status;
        Some(answer)
    }
}

fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Seen>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = words.next().zip(words.next()).ok_or_else(|| io::Error::other("not a request line"))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.ok_or_else(|| io::Error::other("a delivery says how long it is"))?;
    let mut body = vec![0; length.1.parse().map_err(io::Error::other)?];
    reader.read_exact(&mut body)?;
    Ok(Some(Seen { method, path, headers, body, answered: 0 }))
}

fn write_answer(connection: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", answer.status);
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if answer.status != 204 {
        head += &format!("content-length: {}\r\n", answer.body.len());
    }
    let bytes = [head.as_bytes(), b"\r\n", &answer.body].concat();
    connection.write_all(&bytes)
}
