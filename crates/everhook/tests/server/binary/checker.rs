//! Load with a complete history, and a checker that compares the replies of clients with the receipts of receivers.
//!
//! A create call is *acknowledged* (2xx), *in doubt* (503, or no reply) or refused. Acknowledged messages must be
//! stored and arrive; messages in doubt may; no other message may exist. As client libraries do, clients repeat calls
//! in doubt with the same idempotency key and body. Sometimes they give up, or repeat an acknowledged call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use everhook_testkit::receiver::{Receiver, Seen};
use everhook_testkit::rng::Rng;
use everhook_testkit::wait::until;
use serde_json::Value;

use crate::binary::client::{Application, Endpoint, text};
use crate::binary::retry::redrive;
use crate::binary::signature::Signed as _;

const PAUSE: Duration = Duration::from_millis(5);
/// One in this many calls in doubt is given up, and one in this many acknowledged calls is repeated.
const SELDOM: usize = 12;

pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Vec<Operation>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicUsize,
    acknowledged: AtomicUsize,
}

/// One call with all its repetitions.
pub(crate) struct Operation {
    name: String,
    payload: String,
    /// Message ids of all 2xx replies. They must be equal.
    ids: BTreeSet<String>,
    in_doubt: bool,
}

impl Load {
    pub(crate) fn start(application: &Application, clients: usize, seed: u64) -> Load {
        Load::start_named("", application, clients, seed)
    }

    /// Starts load whose operations carry this prefix in their names.
    pub(crate) fn start_named(prefix: &'static str, application: &Application, clients: usize, seed: u64) -> Load {
        let shared = Arc::new(Shared::default());
        let clients = (0..clients).map(|client| {
            let (application, shared) = (application.clone(), Arc::clone(&shared));
            let random = Rng::new(seed ^ (client as u64 + 1));
            thread::spawn(move || {
                let mut operations = Vec::new();
                while !shared.stop.load(SeqCst) {
                    let name = format!("{prefix}{client}-{}", operations.len());
                    operations.push(run(&application, &shared, name, &random));
                }
                operations
            })
        });
        Load { clients: clients.collect(), shared }
    }

    pub(crate) fn sent(&self) -> usize {
        self.shared.sent.load(SeqCst)
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.shared.acknowledged.load(SeqCst)
    }

    pub(crate) fn stop(self) -> Vec<Operation> {
        self.shared.stop.store(true, SeqCst);
        self.clients.into_iter().flat_map(|client| client.join().expect("every answer was a possible one")).collect()
    }
}

/// Sends one message, and repeats the call until it is acknowledged, given up, or the load ends.
fn run(application: &Application, shared: &Shared, name: String, random: &Rng) -> Operation {
    // Unusual white space on purpose: exactly these bytes have to arrive.
    let padding = "é".repeat(random.below(600));
    let payload = format!("{{ \"operation\" : \"{name}\",\n\"padding\":\"{padding}\"}}");
    let mut operation = Operation { name, payload, ids: BTreeSet::new(), in_doubt: false };
    let (key, body) = (operation.key(), operation.body());
    let mut repeat = random.below(SELDOM) == 0;
    loop {
        shared.sent.fetch_add(1, SeqCst);
        let headers = [("idempotency-key", key.as_str())];
        match application.client.send("POST", &application.path("/msg"), &headers, body.as_bytes()) {
            Ok(reply) if reply.status == 202 => {
                if operation.ids.is_empty() {
                    shared.acknowledged.fetch_add(1, SeqCst);
                }
                operation.ids.insert(text(&reply.json()["id"]));
                if !std::mem::take(&mut repeat) {
                    return operation;
                }
                continue;
            }
            Ok(reply) if reply.status == 503 => operation.in_doubt = true,
            Ok(reply) => panic!("{} was answered with {reply:?}", operation.name),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_) => operation.in_doubt = true,
        }
        let gives_up = operation.in_doubt && random.below(SELDOM) == 0;
        if gives_up || shared.stop.load(SeqCst) {
            return operation;
        }
        thread::sleep(PAUSE);
    }
}

impl Operation {
    /// Repeats an acknowledged call, perhaps at another node: the reply must name the same message.
    #[track_caller]
    pub(crate) fn repeat(&self, application: &Application) {
        let Some(id) = self.ids.first() else { return };
        let (key, body) = (self.key(), self.body());
        let headers = [("idempotency-key", key.as_str())];
        let reply = application.client.send("POST", &application.path("/msg"), &headers, body.as_bytes()).unwrap();
        assert_eq!(&text(&reply.expect(202)["id"]), id, "one key, several messages");
    }

    fn key(&self) -> String {
        format!("key-{}", self.name)
    }

    fn body(&self) -> String {
        format!(r#"{{"eventType":"load.sent","payload":{}}}"#, self.payload)
    }
}

/// Counts of a run. Every violation has already failed the test.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) acknowledged: usize,
    pub(crate) in_doubt: usize,
    pub(crate) in_doubt_but_stored: usize,
    pub(crate) receipts: usize,
    /// Receipts that the receiver had already answered with 2xx.
    pub(crate) duplicates: usize,
    /// Deliveries that died and were redriven.
    pub(crate) redriven: usize,
}

pub(crate) struct Run<'a> {
    pub(crate) application: &'a Application,
    pub(crate) receiver: &'a Receiver,
    pub(crate) endpoints: &'a [(&'static str, Endpoint)],
    pub(crate) operations: Vec<Operation>,
}

impl Run<'_> {
    /// Waits until everything has arrived, then checks the history.
    #[track_caller]
    pub(crate) fn check(&self) -> Report {
        let stored = self.application.client.list(&self.application.path("/msg"));
        let stored = stored.iter().map(|message| (text(&message["id"]), text(&message["payload"]["operation"])));
        let stored = stored.collect::<BTreeMap<_, _>>();
        let mut report = Report::default();
        self.check_stored(&stored, &mut report);
        self.wait_until_arrived(&stored, &mut report);
        let receipts = self.receiver.everything();
        self.check_receipts(&receipts, &stored);
        self.check_duplicates(&receipts, &stored, &mut report);
        report.receipts = receipts.len();
        report
    }

    /// Checks that the store lost and invented nothing, and that each idempotency key has one message.
    #[track_caller]
    fn check_stored(&self, stored: &BTreeMap<String, String>, report: &mut Report) {
        let mut by_operation = BTreeMap::<&str, Vec<&str>>::new();
        for (id, operation) in stored {
            by_operation.entry(operation).or_default().push(id);
        }
        for operation in &self.operations {
            let ids = by_operation.remove(operation.name.as_str()).unwrap_or_default();
            assert!(operation.ids.len() <= 1, "one key, several messages: {:?}", operation.ids);
            assert!(ids.len() <= 1, "one key, several messages: {ids:?}");
            match operation.ids.first() {
                Some(id) => assert_eq!(ids, [id], "acknowledged, but not stored"),
                None => assert!(ids.is_empty() || operation.in_doubt, "never acknowledged, but stored: {ids:?}"),
            }
            report.acknowledged += operation.ids.len();
            report.in_doubt += usize::from(operation.ids.is_empty() && operation.in_doubt);
            report.in_doubt_but_stored += usize::from(operation.ids.is_empty() && !ids.is_empty());
        }
        assert!(by_operation.is_empty(), "stored, but nobody sent it: {by_operation:?}");
    }

    /// Waits until every stored message has arrived at every endpoint. Dead deliveries have to be visible, and are
    /// redriven.
    #[track_caller]
    fn wait_until_arrived(&self, stored: &BTreeMap<String, String>, report: &mut Report) {
        for (path, endpoint) in self.endpoints {
            until(&format!("everything has arrived at {path}"), || {
                let seen = self.receiver.seen(path);
                let arrived = seen.iter().filter(|seen| is_success(seen)).map(Seen::message).collect::<BTreeSet<_>>();
                let missing = stored.keys().filter(|id| !arrived.contains(id.as_str())).collect::<Vec<_>>();
                let is_dead = |id: &&&String| self.application.destination(id, endpoint)["statusText"] == "fail";
                let dead = missing.iter().take(100).filter(is_dead).count();
                if dead > 0 {
                    report.redriven += dead;
                    redrive(self.application, endpoint);
                }
                missing.is_empty().then_some(())
            });
        }
        for id in stored.keys() {
            for (_, endpoint) in self.endpoints {
                self.application.wait_for(id, endpoint, "success");
            }
        }
    }

    /// Checks that every receipt belongs to an accepted message and has its exact bytes.
    #[track_caller]
    fn check_receipts(&self, receipts: &[Seen], stored: &BTreeMap<String, String>) {
        let payloads = self.operations.iter().map(|operation| (&*operation.name, &*operation.payload));
        let payloads = payloads.collect::<BTreeMap<_, _>>();
        let secrets = self.endpoints.iter().map(|(path, endpoint)| (*path, &*endpoint.secret));
        let secrets = secrets.collect::<BTreeMap<_, _>>();
        for seen in receipts {
            let operation = stored.get(seen.message());
            let operation = operation.unwrap_or_else(|| panic!("arrived, but is not stored: {seen:?}"));
            assert_eq!(String::from_utf8_lossy(&seen.body), payloads[operation.as_str()]);
            seen.verify(secrets[seen.path.as_str()]);
        }
    }

    /// Checks that every receipt has an attempt, and every duplicate an abandoned attempt with a reason.
    #[track_caller]
    fn check_duplicates(&self, receipts: &[Seen], stored: &BTreeMap<String, String>, report: &mut Report) {
        let mut counts = BTreeMap::<(&str, &str), (usize, usize)>::new();
        for seen in receipts {
            let (all, successes) = counts.entry((&seen.path, seen.message())).or_default();
            *all += 1;
            *successes += usize::from(is_success(seen));
        }
        for (path, endpoint) in self.endpoints {
            for id in stored.keys() {
                let (all, successes) = counts[&(*path, id.as_str())];
                if all == 1 {
                    continue;
                }
                let attempts = self.application.attempts(id);
                let attempts = attempts.iter().filter(|attempt| attempt["endpointId"] == endpoint.id);
                let attempts = attempts.collect::<Vec<_>>();
                let unanswered = attempts.iter().filter(|attempt| attempt["responseStatusCode"] == 0);
                let unanswered = unanswered.filter(|attempt| !text(&attempt["response"]).is_empty()).count();
                let what =
                    || format!("{all} receipts of {id} at {path}, {successes} answered 2xx; {}", show(&attempts));
                assert!(all <= attempts.len(), "a receipt without an attempt: {}", what());
                assert!(successes - 1 <= unanswered, "a duplicate without a cause: {}", what());
                let succeeded = attempts.iter().filter(|attempt| attempt["status"] == 0).count();
                assert_eq!(succeeded, 1, "one attempt ends a delivery: {}", what());
                report.duplicates += successes - 1;
            }
        }
    }
}

fn is_success(seen: &Seen) -> bool {
    (200..300).contains(&seen.answered)
}

fn show(attempts: &[&Value]) -> String {
    attempts.iter().fold(String::from("attempts:"), |mut text, attempt| {
        let _ = write!(text, " {} {} {:?};", attempt["statusText"], attempt["responseStatusCode"], attempt["response"]);
        text
    })
}
