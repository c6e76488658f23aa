//! `kill -9` in the middle of bulk work: each selected delivery is changed once, no other one, and the count is right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::rng::{self, Rng};
use everhook_testkit::wait::until;
use serde_json::{Value, json};

use crate::binary::background;
use crate::binary::client::{Application, Endpoint, text};
use crate::binary::environment::variable;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    a_bulk_redrive_that_is_killed_redrives_each_delivery_once,
    a_bulk_cancellation_that_is_killed_cancels_each_delivery_once,
}

/// Deliveries to change: eight slices of 250.
const SELECTED: usize = 2000;
/// Deliveries of another event type, which must stay as they are.
const OTHERS: usize = 20;
const KILLS: usize = 3;
const SETTINGS: [(&str, &str); 2] = [("LEASE_SECONDS", "1"), ("RETRY_SCHEDULE", "3600")];
/// With two slices per second, the work is not done before the last kill.
const RATE: usize = 500;
/// The time of a slice with its pause.
const CYCLE: Duration = Duration::from_millis(500);

/// An application with one endpoint, and its messages.
struct Stage {
    application: Application,
    endpoint: Endpoint,
    selected: Vec<String>,
    others: Vec<String>,
}

impl Stage {
    fn new(server: &Server, receiver: &Receiver, prepare: impl Fn(&Application, &Endpoint)) -> Stage {
        let application = server.client().application("Acme");
        let endpoint = application.endpoint(&receiver.url("/"));
        prepare(&application, &endpoint);
        let selected =
            [send(&application, "chosen", SELECTED / 2), send(&application, "chosen", SELECTED / 2)].concat();
        let others = send(&application, "other", OTHERS);
        Stage { application, endpoint, selected, others }
    }

    /// Starts bulk work and kills the server several times in the middle of it. Returns the result.
    fn killed(&self, server: &mut Server, route: &str, counts: &str) -> Value {
        let random = random();
        let body = json!({ "since": "2020-01-01T00:00:00Z", "eventTypes": ["chosen"], "ratePerSecond": RATE });
        let task = background::start(&self.application, &self.endpoint, route, &body);
        let mut before = 0;
        for kill in 0..KILLS {
            let done = self.advanced(&task, counts, before);
            // At once: a position that is stored before its slice shows here. Later: a slice may be under way.
            thread::sleep(random.between(Duration::ZERO, CYCLE * u32::from(kill > 0)));
            server.kill();
            assert!(done < SELECTED, "the server was killed too late to prove anything");
            before = done;
            server.start_again();
        }
        background::ended(&self.application, &task)
    }

    /// Waits until more than `before` deliveries are done, and returns their number.
    fn advanced(&self, task: &str, counts: &str, before: usize) -> usize {
        until("the next slice is done", || {
            let found = self.application.client.get(&format!("/background-task/{task}")).expect(200);
            let done = found["data"][counts].as_u64().and_then(|done| usize::try_from(done).ok());
            done.filter(|done| *done > before)
        })
    }

    /// The number of deliveries in a state.
    fn count(&self, state: &str) -> usize {
        self.application.client.list(&self.application.path(&format!("/delivery?state={state}"))).len()
    }

    /// The classes of all attempts by message, without those that a crash ended.
    fn attempts(&self) -> BTreeMap<String, Vec<String>> {
        let path = self.application.path(&format!("/attempt/endpoint/{}", self.endpoint.id));
        let mut by_message: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for attempt in self.application.client.list(&path) {
            if attempt["class"] != "abandoned" {
                by_message.entry(text(&attempt["msgId"])).or_default().push(text(&attempt["class"]));
            }
        }
        by_message
    }
}

fn send(application: &Application, event_type: &str, count: usize) -> Vec<String> {
    let message = |number| json!({ "eventType": event_type, "payload": { "number": number } });
    let batch = json!({ "messages": (0..count).map(message).collect::<Vec<_>>() });
    let sent = application.client.post(&application.path("/msg/batch"), &batch).expect(202);
    sent["data"].as_array().unwrap().iter().map(|message| text(&message["id"])).collect()
}

fn random() -> Rng {
    let seed = variable("EVERHOOK_TEST_SEED").map_or_else(rng::seed, |seed| seed.parse().unwrap());
    eprintln!("EVERHOOK_TEST_SEED={seed}");
    Rng::new(seed)
}

/// The receiver keeps refusing, so that a delivery that was redriven is dead again. A second redrive would show as one
/// more attempt.
fn a_bulk_redrive_that_is_killed_redrives_each_delivery_once(backend: Arc<Backend>) {
    let (mut server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    receiver.answer("/", Answer::status(422));
    let stage = Stage::new(&server, &receiver, |application, endpoint| {
        application.change(endpoint, &json!({ "policy": { "retry": { "finalStatuses": [422] } } }));
    });
    until("every delivery is dead", || (stage.count("dead") == SELECTED + OTHERS).then_some(()));
    let ended = stage.killed(&mut server, "bulk-redrive", "deliveriesRedriven");
    assert_eq!((&ended["status"], &ended["data"]), (&json!("finished"), &json!({ "deliveriesRedriven": SELECTED })));
    until("every delivery is dead again", || (stage.count("dead") == SELECTED + OTHERS).then_some(()));

    let (attempts, seen) = (stage.attempts(), receiver.seen("/"));
    for message in &stage.selected {
        assert_eq!(attempts[message], ["status", "status"], "{message} has one attempt and one after its redrive");
    }
    for message in &stage.others {
        assert_eq!(attempts[message], ["status"], "{message} was not selected");
        assert_eq!(seen.iter().filter(|seen| seen.message() == message).count(), 1);
    }
}

fn a_bulk_cancellation_that_is_killed_cancels_each_delivery_once(backend: Arc<Backend>) {
    let (mut server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let paused = |paused: Value| json!({ "policy": { "paused": paused } });
    let stage = Stage::new(&server, &receiver, |application, endpoint| {
        application.change(endpoint, &paused(json!(true)));
    });
    let ended = stage.killed(&mut server, "bulk-cancel", "deliveriesCancelled");
    assert_eq!((&ended["status"], &ended["data"]), (&json!("finished"), &json!({ "deliveriesCancelled": SELECTED })));
    assert_eq!((stage.count("cancelled"), stage.count("held")), (SELECTED, OTHERS));
    let attempts = stage.attempts();
    for message in &stage.selected {
        assert_eq!(attempts[message], ["cancelled"], "{message} was cancelled once");
    }
    stage.application.change(&stage.endpoint, &paused(Value::Null));
    receiver.wait_for_messages("/", &stage.others);
    assert_eq!(receiver.count(), OTHERS, "a cancelled delivery is never sent");
}
