//! `kill -9` at random moments under load: nothing is lost, nothing is invented, duplicates are explained.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use everhook_testkit::length::length;
use everhook_testkit::receiver::{Answer, Receiver};
use everhook_testkit::rng::{self, Rng};
use everhook_testkit::wait::{Deadline, PATIENCE, until};
use serde_json::json;

use crate::binary::background;
use crate::binary::checker::{Load, Run};
use crate::binary::client::Application;
use crate::binary::environment::variable;
use crate::binary::scene::Scene;
use crate::binary::server::{Backend, Server, on_both_stores};

on_both_stores! {
    no_acknowledged_message_is_lost_when_the_server_is_killed_again_and_again,
    a_delivery_in_flight_when_the_server_is_killed_arrives_after_a_restart,
    a_message_that_waited_for_a_retry_is_retried_after_a_crash,
    a_delivery_that_was_under_way_in_too_many_crashes_is_dead_and_can_be_redriven,
    a_remote_worker_keeps_its_job_when_the_server_is_killed_and_started_again,
    a_bulk_replay_that_is_killed_goes_on_and_sends_each_message_once,
}

/// Number of kills, usual and in a long run; `EVERHOOK_TEST_KILLS` overrides it.
const KILLS: (usize, usize) = (20, 50);
const CLIENTS: usize = 4;
const RETRIES: (&str, &str) = ("RETRY_SCHEDULE", "0.1,0.2,0.5,1,1,1,2,2,2,2,2,2");
/// Tasks of dead servers are taken over after a second. Failed deliveries are retried soon and often.
const SETTINGS: [(&str, &str); 2] = [("LEASE_SECONDS", "1"), RETRIES];
/// A lease that a busy machine does not break, for tests that count the attempts of a replica that lives.
const STEADY: [(&str, &str); 2] = [("LEASE_SECONDS", "4"), RETRIES];

/// The moment of a kill. Counts start with the server.
#[derive(Debug)]
enum Moment {
    Starting(Duration),
    /// After this many started requests.
    Sent(usize),
    /// After this many acknowledged messages.
    Acknowledged(usize),
    /// After this many received requests.
    Received(usize),
    /// While the server reclaims the tasks of its predecessors, or after many messages if there are none.
    Reclaiming,
}

fn no_acknowledged_message_is_lost_when_the_server_is_killed_again_and_again(backend: Arc<Backend>) {
    let seed = variable("EVERHOOK_TEST_SEED").map_or_else(rng::seed, |seed| seed.parse().unwrap());
    let kills = variable("EVERHOOK_TEST_KILLS");
    let kills = kills.map_or_else(|| length(KILLS.0, KILLS.1), |kills| kills.parse().unwrap());
    eprintln!("EVERHOOK_TEST_SEED={seed} EVERHOOK_TEST_KILLS={kills}");
    let random = Rng::new(seed);
    let (mut server, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let application = server.client().application("Acme");
    let endpoints = ["/steady", "/flaky"].map(|path| (path, application.endpoint(&receiver.url(path))));
    let mut count = 0;
    receiver.answer_by("/flaky", move || {
        count += 1;
        Answer::status(if count % 10 == 0 { 500 } else { 200 })
    });
    let load = Load::start(&application, CLIENTS, seed);
    for _ in 0..kills {
        kill_at(choose(&random), &mut server, &load, &receiver);
        server.spawn();
    }
    server.wait_until_serving();
    let operations = load.stop();
    let run = Run { application: &application, receiver: &receiver, endpoints: &endpoints, operations };
    let report = run.check();
    eprintln!("{kills} kills: {report:?}");
    assert!(report.acknowledged >= kills, "the load was no load: {report:?}");
}

fn choose(random: &Rng) -> Moment {
    let count = |bound| random.below(bound);
    match count(10) {
        0 => Moment::Starting(Duration::from_micros(count(150_000) as u64)),
        1 => Moment::Reclaiming,
        2 | 3 => Moment::Sent(count(150)),
        4..=6 => Moment::Acknowledged(count(150)),
        _ => Moment::Received(count(300)),
    }
}

/// Waits for the moment and kills the server, which has just been started.
fn kill_at(moment: Moment, server: &mut Server, load: &Load, receiver: &Receiver) {
    let (sent, acknowledged, received) = (load.sent(), load.acknowledged(), receiver.count());
    let log = server.log_length();
    if let Moment::Starting(after) = moment {
        thread::sleep(after);
        return server.kill();
    }
    server.wait_until_serving();
    let has_come = || match moment {
        Moment::Starting(_) => true,
        Moment::Sent(count) => load.sent() >= sent + count,
        Moment::Acknowledged(count) => load.acknowledged() >= acknowledged + count,
        Moment::Received(count) => receiver.count() >= received + count,
        Moment::Reclaiming => {
            server.logged_since(log, "reclaimed task") > 0 || load.acknowledged() >= acknowledged + 1000
        }
    };
    let give_up = Deadline::new(PATIENCE);
    while !has_come() {
        assert!(!give_up.is_over(), "{moment:?} did not come");
        thread::sleep(Duration::from_micros(200));
    }
    server.kill();
}

fn a_delivery_in_flight_when_the_server_is_killed_arrives_after_a_restart(backend: Arc<Backend>) {
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &SETTINGS);
    receiver.hang("/");
    let message = application.send(&json!({ "n": 1 }));
    receiver.wait_for("/", 1);
    server.kill();
    receiver.release("/");
    server.start_again();
    application.wait_for(&message, &endpoint, "success");
    let seen = receiver.seen("/");
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.message() == message && seen.body == br#"{"n":1}"#));
    let attempts = application.attempts(&message);
    assert_eq!(attempts.len(), 2, "the abandoned attempt is in the log: {attempts:?}");
    assert_eq!((&attempts[0]["status"], &attempts[0]["responseStatusCode"]), (&json!(2), &json!(0)));
    // The attempt started with its lease and ended when the next server found it.
    assert!(attempts[0]["responseDurationMs"].as_u64().unwrap() > 0, "{attempts:?}");
    assert!(attempts[0]["response"].as_str().unwrap().starts_with("node sess_"), "{attempts:?}");
    assert_eq!(seen[1].header("everhook-attempt"), "1", "a crash uses no try");
}

fn a_message_that_waited_for_a_retry_is_retried_after_a_crash(backend: Arc<Backend>) {
    let settings = [("LEASE_SECONDS", "1"), ("RETRY_SCHEDULE", "3")];
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &settings);
    receiver.answer_in_turn("/", [Answer::status(500)], Answer::status(200));
    let message = application.send(&json!({}));
    application.wait_for_attempts(&message, 1);
    server.kill();
    server.start_again();
    application.wait_for(&message, &endpoint, "success");
    let attempts = application.attempts(&message);
    let statuses = attempts.iter().map(|attempt| &attempt["responseStatusCode"]).collect::<Vec<_>>();
    assert_eq!(statuses, [500, 200]);
}

fn a_delivery_that_was_under_way_in_too_many_crashes_is_dead_and_can_be_redriven(backend: Arc<Backend>) {
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &SETTINGS);
    receiver.hang("/");
    let message = application.send(&json!({}));
    for crashes in 1.. {
        receiver.wait_for("/", crashes);
        server.kill();
        server.start_again();
        if has_ended(&application, &message, &receiver, crashes) {
            break;
        }
        assert!(crashes < 20, "it kills its server for ever");
    }
    assert_eq!(application.wait_for(&message, &endpoint, "fail")["status"], 2);
    receiver.release("/");
    crate::binary::retry::redrive(&application, &endpoint);
    application.wait_for(&message, &endpoint, "success");
}

fn a_remote_worker_keeps_its_job_when_the_server_is_killed_and_started_again(backend: Arc<Backend>) {
    let Scene { mut server, receiver, application, .. } = Scene::start(&backend, &SETTINGS);
    let client = server.client();
    receiver.hang("/");
    application.send(&json!({}));
    receiver.wait_for("/", 1);
    client.post("/job", &json!({ "queue": "q", "kind": "k", "payload": {} })).expect(202);
    let worker = client.post("/worker", &json!({ "name": "w", "queues": ["q"], "leaseSeconds": 300 })).expect(201);
    let worker = worker["id"].as_str().unwrap();
    let leased = client.post(&format!("/worker/{worker}/lease"), &json!({ "waitSeconds": 15 })).expect(200);
    let job = &leased["data"][0];
    server.kill();
    server.start_again();
    // The new server has taken over from the dead one.
    receiver.wait_for("/", 2);
    receiver.release("/");
    let held = json!({ "held": [{ "id": job["id"], "epoch": job["epoch"] }] });
    let heartbeat = client.post(&format!("/worker/{worker}/heartbeat"), &held).expect(200);
    assert_eq!(heartbeat, json!({ "lost": [], "cancelled": [] }));
    let path = format!("/job/{}", job["id"].as_str().unwrap());
    client.post(&format!("{path}/complete"), &json!({ "workerId": worker, "epoch": job["epoch"] })).expect(200);
    let job = client.get(&path).expect(200);
    let classes = job["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["class"]).collect::<Vec<_>>();
    assert_eq!((&job["state"], classes), (&json!("succeeded"), vec![&json!("success")]));
}

/// Waits until the delivery is tried again or dead.
fn has_ended(application: &Application, message: &str, receiver: &Receiver, tried: usize) -> bool {
    everhook_testkit::wait::until("the delivery is tried again or given up", || {
        let destinations = application.client.list(&application.path(&format!("/msg/{message}/endpoint")));
        let is_dead = destinations[0]["statusText"] == "fail";
        (is_dead || receiver.count() > tried).then_some(is_dead)
    })
}

#[test]
fn what_a_crashed_replica_held_is_taken_over_by_another() {
    let backend = Backend::postgres();
    let Scene { server: mut first, receiver, application, endpoint } = Scene::start(&backend, &STEADY);
    let second = first.start_another();
    receiver.hang("/");
    let messages = application.send_many(20);
    receiver.wait_for_messages("/", &messages);
    first.kill();
    receiver.release("/");
    let application = Application { client: second.client(), id: application.id };
    for message in &messages {
        application.wait_for(message, &endpoint, "success");
        assert!(application.attempts(message).len() <= 2);
    }
    assert!(receiver.count() <= 2 * messages.len());
}

#[test]
fn a_replica_that_was_paused_for_longer_than_its_lease_changes_nothing_of_what_was_taken_over() {
    let backend = Backend::postgres();
    let Scene { server: first, receiver, application, endpoint } = Scene::start(&backend, &STEADY);
    let second = first.start_another();
    receiver.hang("/");
    let messages = application.send_many(10);
    receiver.wait_for_messages("/", &messages);
    first.pause();
    // The other replica takes over and gets a reply; then the first wakes up with replies of its own.
    let elsewhere = Application { client: second.client(), id: application.id.clone() };
    receiver.wait_for("/", 2 * messages.len());
    receiver.release("/");
    for message in &messages {
        elsewhere.wait_for(message, &endpoint, "success");
    }
    first.resume();
    // A paused node that delivers again has learned that its session was closed.
    let later = application.send_many(10);
    for message in messages.iter().chain(&later) {
        application.wait_for(message, &endpoint, "success");
    }
    for message in &messages {
        let attempts = application.attempts(message);
        let classes = attempts.iter().map(|attempt| &attempt["class"]).collect::<Vec<_>>();
        assert_eq!(classes, ["abandoned", "success"], "{attempts:?}");
    }
    for message in &later {
        assert_eq!(application.attempts(message).len(), 1);
    }
}

#[test]
fn no_acknowledged_message_is_lost_when_replicas_crash_in_turn() {
    let seed = variable("EVERHOOK_TEST_SEED").map_or_else(rng::seed, |seed| seed.parse().unwrap());
    eprintln!("EVERHOOK_TEST_SEED={seed}");
    let backend = Backend::postgres();
    let (first, receiver) = (Server::start(&backend, &SETTINGS), Receiver::start());
    let mut servers = [first.another(), first];
    servers[0].start_again();
    let application = servers[0].client().application("Acme");
    let endpoints = [("/", application.endpoint(&receiver.url("/")))];
    let other = Application { client: servers[1].client(), id: application.id.clone() };
    // Replicas share idempotency keys, so each load needs its own names.
    let loads = [Load::start(&application, 2, seed), Load::start_named("second-", &other, 2, seed)];
    let random = Rng::new(seed);
    for kill in 0..10 {
        let (server, load) = (&mut servers[kill % 2], &loads[kill % 2]);
        let count = random.below(150);
        kill_at(Moment::Acknowledged(count), server, load, &receiver);
        server.start_again();
    }
    let operations = loads.into_iter().flat_map(Load::stop).collect();
    let run = Run { application: &application, receiver: &receiver, endpoints: &endpoints, operations };
    eprintln!("10 kills in turn: {:?}", run.check());
}

fn a_bulk_replay_that_is_killed_goes_on_and_sends_each_message_once(backend: Arc<Backend>) {
    const MESSAGES: usize = 600;
    let Scene { mut server, receiver, application, endpoint } = Scene::start(&backend, &SETTINGS);
    let messages = application.send_many(MESSAGES);
    let succeeded = application.path(&format!("/attempt/endpoint/{}?status=0", endpoint.id));
    until("every message has arrived", || (application.client.list(&succeeded).len() == MESSAGES).then_some(()));
    // With three slices at a second each, the work is not done before the kill.
    let body = json!({ "since": "2020-01-01T00:00:00Z", "ratePerSecond": 250 });
    let task = background::start(&application, &endpoint, "bulk-replay", &body);
    let sent = until("the replay has begun", || {
        let found = application.client.get(&format!("/background-task/{task}")).expect(200);
        found["data"]["messagesSent"].as_u64().filter(|sent| *sent > 0)
    });
    server.kill();
    assert!(sent < MESSAGES as u64, "the server was killed too late to prove anything");
    server.start_again();
    let finished = background::ended(&application, &task);
    assert_eq!((&finished["status"], &finished["data"]), (&json!("finished"), &json!({ "messagesSent": MESSAGES })));
    until("every message has arrived again", || {
        (application.client.list(&succeeded).len() >= 2 * MESSAGES).then_some(())
    });
    let seen = receiver.seen("/");
    for message in &messages {
        let attempts = application.attempts(message);
        let successes = attempts.iter().filter(|attempt| attempt["status"] == 0).count();
        assert_eq!(successes, 2, "one delivery and one replay: {attempts:?}");
        let arrived = seen.iter().filter(|seen| seen.message() == message).count();
        assert!((2..=attempts.len()).contains(&arrived), "the log explains every request: {arrived} of {attempts:?}");
    }
}
